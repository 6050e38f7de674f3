// Package labs runs the labs under examples/labs as their readers do: it executes the commands of each lab's README,
// block by block, against a local cluster that Berth schedules, and checks after each block the results that the
// README promises.
//
// So the READMEs and the manifests next to them are the only source. A block of commands is a fenced block without a
// language; its commands run in the lab's folder. A block that begins with `berth up` starts Berth with these flags
// instead of the defaults; one that begins with `../../fleet.sh up` starts it as separate processes. The last block
// cleans up, and the lab fails if it leaves something behind.
//
// Run all of them with `make labs`, some with `make labs LABS="taints gates"`. With SCHEDULER=kube-scheduler the same
// expectations are checked against kube-scheduler, which shows that they match upstream.
//
// Start reading at labs_test.go, then lab_test.go; each lab has a function in placement_test.go, topology_test.go,
// queue_test.go, preemption_test.go or descheduling_test.go.
package labs
