// Package contend starts schedulers to be measured side by side: kube-scheduler, Berth in one process, Berth as
// separate processes, all with the same configuration on the same cluster; and clients that only bind, which no
// scheduler can outpace.
//
// Start reading at Contenders.
package contend
