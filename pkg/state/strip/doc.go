// Package strip removes from Kubernetes' objects what no decision reads (Strip), before they become facts, and has the
// annotations and labels that say what an object in the facts has lost.
package strip
