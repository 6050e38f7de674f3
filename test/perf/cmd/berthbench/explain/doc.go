// Package explain measures how long `berth explain pod` takes in a large cluster, from the start of its process to
// its end: right after the last of many pods was bound, and again once everything is at rest.
//
// Run it with `make bench-explain`. Start reading at measurement.run.
package explain
