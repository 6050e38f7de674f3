// Package past reads logs from their beginning to where they end: Live that of a running Berth,
// Bundle one that Export has written into a file. Both are what services/scheduler/rerun makes
// decisions again from.
//
// A bundle is a tar file: manifest.yaml, the configuration under config/, the newest snapshot of
// the facts, and the records of each stream in members of some megabytes, as lines of JSON
// compressed with zstd. Export strips every object (state.Strip), however whole the log has it: a bundle holds no
// environment variables, commands or managed fields. It takes the credentials out of the configuration. Writing holds
// the snapshot and one member in memory, reading the snapshot and some lines, within the limits of limits.go.
//
// Start reading at Export and OpenBundle.
package past
