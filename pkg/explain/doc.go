// Package explain answers operators' questions: why a pod is where it is, is unplaced, or is gone, what a gang waits
// for, and what a node is used for. It decides nothing.
//
// An explanation is put together from three sources. The log holds the history: the pod as the facts showed it, and
// every decision about it with its evidence (BuildStory). The leading queue knows the pod's pool, the events that
// would wake it, and how many pods are ahead of it (QueueAnswer). The shard that holds the pod's partition knows the
// nodes as its next decision would see them, and the ledger's entries (ShardAnswer). Running services are asked over
// the bus (Ask, Serve), because they already hold the state of the cluster: rebuilding it takes seconds in a large
// cluster. A part that no service answers is left out, and the explanation says so.
//
// # Files
//
//   - story.go: Story and BuildStory, from records to events; waterfall.go: Story.Steps and its drawing
//   - answer.go and status.go: the answers of services, which are JSON on the bus and in -o json: field names are a
//     format
//   - ask.go: how questions and answers travel
//   - overview.go: the answers of all services, put together for `berth status`
//   - gang.go: the answer about a gang, and its text
//   - text.go: the text of stories and of nodes
//
// # The way of a question
//
// `berth explain pod` publishes a Question on the subject of the queue, with a subject of its own for the reply. The
// queue's Serve hands it to the queue's goroutine, which fills in a QueueAnswer from its state, and publishes the
// answer. The command reads the pod's records from the log, asks the shard that the answer names in the same way, and
// prints Story.Text.
//
// Messages on the bus may be lost, and are bounded: a question that finds a full buffer, or a service that stops, gets
// no answer. Callers have a timeout and go on without. An answer is a snapshot at the log's sequence and the ledger's
// revision that it states; those of the queue and of a shard may differ.
//
// # Concurrency
//
// Stories, answers and overviews are plain values for one goroutine. Serve calls answer from one goroutine, one
// question at a time. Nothing here keeps state between two questions.
//
// Start reading at Story, then BuildStory.
package explain
