// Package build compiles the programs of the local cluster into the repository's build directory, and does so at most
// once per input.
//
// A [Target] names one program, the module that pins its version and the flags it is linked with. [Builder.Build]
// compares a target's stamp, a digest of everything that decides the program's bytes, with the one recorded with the
// last build, and runs the Go command only when they differ.
//
// Invariants:
//
//   - The recorded stamp is removed before a build starts and written after it has succeeded, so that an interrupted
//     build is repeated, never trusted.
//   - One build runs at a time per build directory, across processes: a file lock serialises them, because two cold
//     builds at once are slower than one after the other and would link over each other's output.
//   - The package imports the standard library only. cmd/build can therefore be started with "go run" on a machine
//     that has an empty module cache, and shows progress from its first second.
//
// Start reading at targets.go, then builder.go.
package build
