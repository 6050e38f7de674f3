// Package registry is about hard rules about pods on other nodes: required affinity and anti-affinity, and hard spread.
//
// Each rule is reduced to a Term, and equal terms are one term, whichever pods carry them. A term is registered (T11,
// Register and so on) before the first pod that carries it is placed, and every placement compares the Registry.
// Placements that a term relates in one domain meet at its guards (GuardUse), keys of which only the revision matters.
// Package guard decides which placement uses which guard.
package registry
