// Package signature writes what rules may read of a pod into a few bytes, so that pods which no rule can
// distinguish have the same signature.
//
// A signature has two parts. The prefix holds what the rules about other pods read (owner, node selector,
// tolerations, node affinity, spread constraints); classes that share the prefix share the tallies of these
// rules. The rest holds what the other rules read: requests, images, ports, volumes.
//
// Nothing is ignored explicitly: a field that no rule reads is left out because nothing writes it. So a new rule
// that reads a new field must add it here, and to the generator of package placementtest, whose random pods
// TestEngineAgreesWithTwin compares. Two pods with different signatures may still be alike, which costs a class
// and nothing else; the converse would give wrong answers.
//
// Start reading at Signature.Of. Objects is the same for what rules read of namespaces, services and controllers;
// ID is a hash by which records of decisions are grouped.
package signature
