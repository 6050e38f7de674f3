// Package places runs several scheduler shards in one process and in virtual time, to see where they place pods: the
// decision cores as they are in production, over one in-memory ledger. World plays the queue, the log, the binder and
// the API server, each with a delay of its own, so that shards decide on views that lag behind each other's
// decisions. A run with the same input has the same result.
//
// The package judges nothing: TestPlaces of the package above compares the placements with the scores of
// kube-scheduler's own plugins.
//
// Start reading at World.Run.
package places
