// Package placementtest makes the input for tests of placement: random clusters, profiles
// and pods that use every rule, and random histories of changes, from one seed.
//
// Start reading at Generator; Cluster is what it draws, Event one change of it, View the
// same cluster as a scheduler holds it (NodeInfos and Objects, kept in step by events), and
// Script a history with the decisions asked for on the way, which Shrink makes small when a
// test has failed.
//
// Values come from small sets, so that both sides meet: the same labels, amounts, ports,
// images and names turn up on nodes, on pods that stand there and on pods that wait, and
// many requests just fit or just do not. Equal seeds and sizes give equal input.
//
// Objects are never changed once they are in a Cluster or an Event; a change is a new
// object. Nothing here is for production.
package placementtest
