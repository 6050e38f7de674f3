// Package log measures the log of facts alone, on a NATS server of its own, through the interface that the services
// use (eventlog.Log, events.EncodeFact, events.DecodeFact):
//
//   - an append of many facts relative to an append of one: what is above 1 is the cost of the facts themselves and of
//     the way in which several are stored together. Facts wait for each other in an append, so this is time of a pod;
//   - the processor time of one fact to one reader, server and client together, relative to that of a reader without
//     any of Berth's code, which counts the same bytes in messages of many facts (package bare).
//
// Appends of both sizes, and both readers, take turns, so that a slow phase of the machine hits all of them. A server
// that syncs at intervals, as the embedded one of `berth up` does, and one that syncs every write are settings.
//
// Run it with `make bench-full PARTS=log`; it is part of `make bench`. Start reading at measurement.run.
package log
