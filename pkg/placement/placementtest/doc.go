// Package placementtest makes the input for tests of placement: random clusters, profiles and pods that use every
// rule, and random histories of changes, from one seed.
//
// Start reading at Generator. It draws a Cluster; Event is one change of a cluster, View is the same cluster
// as a scheduler holds it (NodeInfos and Objects, updated by events), and Script is a history with decisions in
// between, which Shrink reduces when a test has failed.
//
// Values come from small sets, so that rules often apply: the same labels, amounts, ports, images and names occur
// on nodes, on pods placed there and on waiting pods, and many requests just fit or just do not fit. Equal seeds
// and sizes give equal input.
//
// Objects are never changed once they are in a Cluster or an Event; a change is a new object. Nothing here is for
// production.
package placementtest
