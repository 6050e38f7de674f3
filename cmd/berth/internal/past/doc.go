// Package past reads logs from their beginning to their end: Live reads the log of a running Berth, Bundle one that
// Export has written to a file. Both are sources from which services/scheduler/rerun makes decisions again.
//
// A bundle is a tar file: manifest.yaml, the configuration under config/, the newest snapshot of the facts, and the
// records of each stream in members of a few megabytes, as lines of JSON compressed with zstd:
//
//	config/scheduler.yaml, config/policy.yaml   if they were given
//	snapshot/00000000000000012345.zst           by the sequence of its last fact
//	DECISIONS/00000000000000000001.zst, …       by the sequence of the first record
//	FACTS/…, LEDGER/…
//	manifest.yaml                               last: its absence shows that the file is cut off
//
// Export strips every object (strip.Strip), however complete it is in the log: a bundle holds no environment
// variables, commands or managed fields. It also removes the credentials from the configuration. Writing holds the
// snapshot and one member in memory, reading the snapshot and some lines, within the limits of limits.go.
//
// A bundle may come from an untrusted source: names, sizes and compression ratios are checked before memory is used
// (limits.go), and what cannot be decoded is an error that names the member.
//
// Files: export.go writes, strip.go removes what must not leave the cluster, bundle.go reads, limits.go bounds,
// live.go reads a running log.
//
// Start reading at Export and OpenBundle.
package past
