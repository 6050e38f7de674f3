// Package foreign accepts the flags of kube-scheduler and the descheduler that Berth does not have, so that each is
// answered by what replaces it instead of by "unknown flag". Package upstreamflags has the answers.
//
// Start reading at Flags.
package foreign
