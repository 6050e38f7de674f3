// Package past reads logs from their beginning to their end: Live reads the log of a running Berth, Bundle one that
// Export has written to a file. Both are sources from which services/scheduler/rerun makes decisions again.
//
// A bundle is a tar file: manifest.yaml, the configuration under config/, the newest snapshot of the facts, and the
// records of each stream in members of a few megabytes, as lines of JSON compressed with zstd. Export strips every
// object (strip.Strip), however complete it is in the log: a bundle holds no environment variables, commands or
// managed fields. It also removes the credentials from the configuration. Writing holds the snapshot and one member
// in memory, reading the snapshot and some lines, within the limits of limits.go.
//
// Start reading at Export and OpenBundle.
package past
