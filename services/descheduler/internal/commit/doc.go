// Package commit carries out what a cycle decided: it writes the asks to the log. The
// evictions themselves are the binders' doing; nothing here talks to Kubernetes.
//
// Start reading at Room.Ask, whose order is the package's one rule:
//
//  1. note the asks of one batch in memory (a crash here leaves nothing);
//  2. append the batch (a crash after it leaves asks that whoever leads next reads before
//     its first cycle);
//  3. the next batch.
//
// An append whose answer is lost is repeated: every ask carries a token that is a function
// of the pod and the number of the ask, and binders act once per token.
package commit
