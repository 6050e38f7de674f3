// Package advice asks extenders and custom plugins about pods, and makes plugins act. Consults holds the questions
// that wait for an answer: which nodes a pod may be placed on, which pods may be evicted for it, and whether it may
// take the place that is held for it. Plugins holds the agreements of plugins about a pod and its node: they
// reserve, prepare, bind, and undo.
//
// Start reading at Consults.AskAboutNodes and Plugins.Proceed.
package advice
