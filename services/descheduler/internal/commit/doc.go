// Package commit carries out what a cycle decided: it keeps the places of replacements in the
// ledger (T12) and writes the asks to the log. The
// evictions themselves are the binders' doing; nothing here talks to Kubernetes.
//
// Start reading at Room.Ask, whose order is the package's one rule:
//
//  0. keep the places of a few moves (a crash here leaves places that nobody asked for: the next
//     leader, or a binder, gives them up); see Room.Move;
//  1. note the asks of one batch in memory (a crash here leaves nothing);
//  2. append the batch (a crash after it leaves asks that whoever leads next reads before
//     its first cycle);
//  3. the next batch.
//
// An append whose answer is lost is repeated: every ask carries a token that is a function
// of the pod and the number of the ask, and binders act once per token.
package commit
