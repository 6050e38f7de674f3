// Package steady watches `berth up` on a cluster of plain nodes for a long time: idle, or while pods are created and
// deleted at a rate. It samples resident memory and processor time, and reports the cost of an idle Berth, and
// whether memory grows after the first minutes.
//
// At a rate, a pod is deleted when so many newer ones have been created, so that the number of pods stays the same.
// The final placements are audited from the API server's own state.
//
// Run it with `make bench-full PARTS="idle steady"`. Start reading at watch.run.
package steady
