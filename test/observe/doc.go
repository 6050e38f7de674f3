// Package observe is a neutral observer of a cluster: it reads the API server's watches of pods,
// disruption budgets and events, and nothing else, and says what was done to pods that should not
// have been. It knows nothing of who schedules; kube-scheduler, the descheduler and Berth are
// counted by the same rules.
//
// What it finds:
//
//   - a budget exceeded: a ready pod of a budget was made to leave, and fewer ready pods than the
//     budget desires were left. The order is that of the API server's own history of pods;
//   - a pod evicted twice: two pods had it evicted for themselves;
//   - a pod evicted for nothing: the one it was evicted for never ran on that node, nor did
//     anybody more important instead of it.
//
// Pods that whoever runs the observer deletes himself are to be told to it first (Account.Excuse):
// they are nobody's victims, and what is evicted for them is excused.
//
// Start reading at Account. Account is plain data and steps, used by one goroutine; Observer feeds
// one from the API server and may be used by many.
package observe
