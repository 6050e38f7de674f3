// Package fit answers what one pod needs of one node, and whether it may run there, by upstream's own libraries:
// requests (k8s.io/component-helpers/resource), node selectors and affinity, taints, and host ports. Package audit
// adds these answers up; it shares none of this code with the scheduler, which implements the same rules
// incrementally.
//
// All functions are pure and safe for concurrent use. They judge one version of an object; which version a decision
// saw is the business of the caller.
//
// Start reading at Requests and UnfitReason.
package fit
