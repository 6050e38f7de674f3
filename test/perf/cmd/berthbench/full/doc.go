// Package full runs the complete table of Berth's targets, part by part, each by the subcommand that measures it, and
// reports the result of each row. A part leaves its outcome in a directory of its own until the part runs again, so
// parts can be run alone, on different days.
//
//	berthbench full run [part...]     run parts, all when none is named; then the table
//	berthbench full table             the table of what there is
//	berthbench full check [part...]   compare with the accepted outcomes; an error says what got worse
//	berthbench full accept [part...]  make the outcomes the accepted ones
//	berthbench full docs              write docs/benchmarks.md, of accepted outcomes or newer ones
//
// Bounds are in test/perf/limits.yaml, accepted outcomes in test/perf/accepted. Run it with
// `make bench-full`. Start reading at parts.
package full
