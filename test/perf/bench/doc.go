// Package bench holds the parts that the subcommands of berthbench share: how a subcommand is declared and
// parsed, the nodes and pods of a load, how latencies are counted, and how a report is written.
//
// Start reading at Subcommand.
package bench
