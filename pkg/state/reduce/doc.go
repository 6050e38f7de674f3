// Package reduce makes an object that is too large for the log small enough (Reduce), in such a way that every
// reader can still use it without causing harm.
//
// Kubernetes accepts objects larger than a message of the log. Leaving them out would be wrong: a pod that is left
// out seems to leave its node empty, and a budget that is left out seems to allow every eviction. So the parts
// whose loss would do harm are kept first, and where such a part has no room, a smaller substitute stands for it if
// there is one, such as a selector that selects every pod. The object is marked (package strip), so that people can
// see the cause, and so that no decision moves it.
//
// Only the queue's version of Berth decides which objects are reduced, and to what; readers recognise the marks.
//
// Start reading at Reduce, then reducePod.
package reduce
