// Package duel plays one script against kube-scheduler with the descheduler, and against Berth, and
// lets a neutral observer (package observe) count what each does to pods that it should not.
//
// A script comes from its seed alone: which pods of what size, priority and scheduler arrive when,
// which of them leave again, and when another client evicts a pod of which application. The cluster
// is full from the beginning, of applications with disruption budgets and of others without, some of
// whose pods take their time to stop. kube-scheduler runs twice, as it does where teams have
// schedulers of their own, each for the pods that name it; Berth gets the same two profiles in one
// file and runs them with two shards. Both have a descheduler with the same policy, which wants the
// pods with budgets too, because they have run for a while. kube-scheduler-alone, which is not played
// unless asked for, is one kube-scheduler with both profiles.
//
// Run it with `make duel`. Start reading at script.go, then duel.play.
package duel
