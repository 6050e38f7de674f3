// Package advice asks extenders and custom plugins about pods, and makes plugins act. Consults has the questions to
// which an answer is waited for: where a pod may go, which pods may be evicted for it, and whether it may have the
// place that is held for it. Plugins has what plugins have agreed to about a pod and its node: they reserve, prepare,
// bind, and take back.
//
// Start reading at Consults.AskAboutNodes and Plugins.Proceed.
package advice
