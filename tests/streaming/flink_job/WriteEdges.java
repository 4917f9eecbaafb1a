import java.time.Duration;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.serialization.SimpleStringEncoder;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.ExternalizedCheckpointRetention;
import org.apache.flink.configuration.StateRecoveryOptions;
import org.apache.flink.connector.file.sink.FileSink;
import org.apache.flink.core.fs.Path;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.filesystem.rollingpolicies.OnCheckpointRollingPolicy;

/**
 * Job of Flink: writes edges as lines of JSON with its file sink, at a rate, with a checkpoint a second.
 *
 * <p>Arguments: folder of the files, folder of the checkpoints, edges, edges per second, and the checkpoint to go on
 * from, or nothing.
 */
public final class WriteEdges {
    /** Makes an edge of a number, and waits as long as the rate asks for. */
    static final class Edge extends RichMapFunction<Long, String> {
        private final double rate;
        private transient long begin;
        private transient long made;

        Edge(double rate) {
            this.rate = rate;
        }

        @Override
        public String map(Long number) throws InterruptedException {
            if (made++ == 0) {
                begin = System.nanoTime();
            }
            long ahead = (long) (made / rate * 1e9) - (System.nanoTime() - begin);
            if (ahead > 1_000_000) {
                Thread.sleep(ahead / 1_000_000);
            }
            return "{\"src\": " + number / 1000 + ", \"dst\": " + number % 1000 + "}";
        }
    }

    public static void main(String[] arguments) throws Exception {
        Configuration options = new Configuration();
        options.set(CheckpointingOptions.CHECKPOINTING_INTERVAL, Duration.ofSeconds(1));
        options.set(CheckpointingOptions.CHECKPOINT_STORAGE, "filesystem");
        options.set(CheckpointingOptions.CHECKPOINTS_DIRECTORY, "file://" + arguments[1]);
        options.set(
                CheckpointingOptions.EXTERNALIZED_CHECKPOINT_RETENTION,
                ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION);
        if (arguments.length > 4) {
            options.set(StateRecoveryOptions.SAVEPOINT_PATH, arguments[4]);
        }
        StreamExecutionEnvironment job = StreamExecutionEnvironment.getExecutionEnvironment(options);
        job.setParallelism(2);
        int tasks = job.getParallelism();
        job.fromSequence(0, Long.parseLong(arguments[2]) - 1)
                .uid("numbers")
                .map(new Edge(Double.parseDouble(arguments[3]) / tasks))
                .uid("edges")
                .sinkTo(
                        FileSink.forRowFormat(new Path(arguments[0]), new SimpleStringEncoder<String>())
                                .withRollingPolicy(OnCheckpointRollingPolicy.build())
                                .build())
                .uid("files");
        job.execute();
    }
}
