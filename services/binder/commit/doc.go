// Package commit carries out the binder's decisions. It is the only place in Berth that writes to Kubernetes; it also
// commits the binder's ledger transactions and appends to the decision log.
//
// Start reading at Executor, which hands each kind of effect to the part that carries it out: bindings (with volumes
// and claims), fences, evictions, conditions, gates, nodes, transactions, publisher (decisions) and reporter (events).
//
// # Goroutines
//
// Effects with an answer are carried out by bounded groups of workers, called lanes: for binds, for several kinds of
// other changes of Kubernetes, and for the ledger, so that slow calls of one lane do not delay the others. Each such
// effect is answered exactly once, and each has a named timeout: a call without a response is answered as well
// (Unknown). Executor.Run starts the workers, one goroutine for the publisher and one for the reporter, which starts
// a bounded number of writers. The binder's loop sends the effects and receives the answers. The parts themselves
// have no state, except pace and connections, which have a lock each, and the series of the reporter, which only its
// goroutine uses.
//
// # Answers of the API server
//
//   - 2xx is Done.
//   - 400, 403, 405, 413, 415 and 422 are Refused: the request was certainly not carried out, and the same one would
//     be refused again.
//   - 404 and 409 have several causes, so that the pod is read to find out which one it is: the pod is gone, bound
//     (AlreadyHere, Elsewhere), or has another resourceVersion (Moved).
//   - 429 is Throttled for an eviction, which is the answer of a disruption budget, and Unknown for everything else.
//   - 500 is Unknown with Failed, or Refused if etcd finds the object too large.
//   - Everything else, and no answer at all, is Unknown: the request may have been carried out, or may still be.
//
// Nothing is retried in here, except events and appends to the log. Whether a request may be sent again is a decision.
// The client's own silent retries on Retry-After are disabled (see transport).
//
// Bindings and new events are posted by a poster, over connections of their own; a client of client-go sends all other
// requests, and reads every answer but the plain success.
//
// # The way of a bind
//
// A worker of LaneBind takes the effect. The volumes of the pod's claims are bound or requested (volumeBinder), its
// device claims get their devices (claims), and its status gets the mapping of devices to containers (mappings.go) or,
// if its annotations are full, the attempt (marks.go). Then an extender binds the pod (extend.go), or the Binding is
// posted. A step that is not finished ends the work with its answer: Waiting for a volume, ClaimMade for a claim that
// has to be in the ledger first. The core sends the effect again when it is time, and every step finds done what is
// done: each write names UID and resourceVersion, so that it is carried out once however often it is sent.
//
// # What a crash leaves
//
// Calls in flight may be carried out without an answer. Every one of them is repeated by another binder, from the
// ledger or from the log, and is harmless twice. Decisions that wait for the log are lost; the facts and the ledger
// have the same information. Events that wait are lost.
package commit
