// Package strip reduces objects of the API server to the fields that the rules of package audit read, so that histories
// stay small and hold nothing of a workload that no rule needs: no images, no commands, no environment.
//
// Each function returns a new object without its resourceVersion, which is a field of the record
// (recording.Object.RV). The result shares memory with its argument. A rule that reads another field needs it added
// here; histories that were recorded before do not have it.
//
// Start reading at Pod.
package strip
