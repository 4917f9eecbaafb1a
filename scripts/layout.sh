# shellcheck shell=bash
# lay_out DIR: link the packages into DIR as they are installed (backends/pyg is aethergraph.pyg),
# for tools that read sources. Sourced; ROOT is the repository.
lay_out() {
    local path
    mkdir -p "$1/aethergraph"
    for path in "$ROOT"/aethergraph/*; do
        case $path in *.so | *__pycache__) ;; *) ln -s "$path" "$1/aethergraph/" ;; esac
    done
    for path in _torch pyg dgl; do ln -s "$ROOT/backends/$path" "$1/aethergraph/$path"; done
}
