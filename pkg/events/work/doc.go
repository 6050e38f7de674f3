// Package work has the messages between the queue and the shards that are not part of the log: requests for work,
// offers of pods, and turns. They are hints; a lost or repeated one does no harm.
package work
