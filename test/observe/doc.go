// Package observe is a neutral observer of a cluster: it reads the API server's watches of pods, disruption budgets
// and events, and nothing else, and reports evictions that should not have happened. It does not know which scheduler
// runs; kube-scheduler, the descheduler and Berth are counted by the same rules.
//
// What it finds:
//
//   - a budget exceeded: a ready pod of a budget was evicted, and fewer ready pods than the budget desires were left.
//     The order is that of the API server's own history of pods;
//   - a pod evicted twice: two pods had it evicted for themselves;
//   - a pod evicted for nothing: the pod it was evicted for never ran on that node, nor did a more important one
//     instead.
//
// A test that deletes pods itself must report them first (Account.Excuse): they do not count as evicted, and pods
// evicted for them are excused.
//
// Start reading at Account. Account is plain data and steps, used by one goroutine; Observer feeds one from the API
// server and may be used by many.
package observe
