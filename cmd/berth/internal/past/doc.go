// Package past reads logs from their beginning to where they end: Live that of a running Berth,
// Bundle one that Export has written into a file. Both are what services/scheduler/rerun makes
// decisions again from.
//
// A bundle is a tar file: manifest.yaml, the configuration under config/, the newest snapshot of
// the facts, and the records of each stream in members of some megabytes, as lines of JSON
// compressed with zstd. It has what the log has and the ledger's history in it, which are pods,
// nodes and the other objects without what placement does not need (no environment variables, no
// secrets, no managed fields), and no credentials. Writing holds one member in memory, reading
// some lines.
//
// Start reading at Export and OpenBundle.
package past
