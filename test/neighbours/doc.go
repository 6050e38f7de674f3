// Package neighbours runs the programs that live beside a scheduler, such as autoscalers, once beside kube-scheduler
// and once beside Berth, with the same script on a fresh cluster each, and compares the results.
//
// A Neighbour is built from its Go module, which a module below tools/neighbours pins and the driver of local clusters
// builds. A Scenario is a script with one of them. It measures, and it names what must not happen with any scheduler.
// Each measure says how far Berth's value may be from kube-scheduler's. docs/neighbours.md has the results.
//
// To add a neighbour: pin its module below tools/neighbours, add its programs to the targets of
// tools/cluster/internal/build, write its scenarios, and add it to All. `make neighbours NEIGHBOURS=name` runs it, and
// ACCEPT=1 writes its results into the page.
//
// Start reading at Neighbour, then Scene, which is what a scenario gets.
package neighbours
