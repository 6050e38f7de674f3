// Package wire reads and packs pods as bytes, without decoding them into Kubernetes' types: decoding every pod
// would cost more than all other work on a fact, and holding every pod decoded more memory than all other state.
//
// Start reading at Parts, which splits the protobuf of a pod, then Own, the individual data of a pod in packed
// form.
//
// The data of a pod is of three sorts, and the packages next to this one keep them apart:
//
//   - What pods of a template have in common: Parts.Metadata and Parts.Spec, messages from which the individual
//     fields have been removed. Equal bytes are equal templates.
//   - The condition of the pod: Parts.Skeleton, the status with marks in place of times and restart counts. Most
//     pods of a template are in one of a few conditions.
//   - What is individual: names, node, times, counts, annotations. Decisions read some of it, which become fields
//     of state.Pod; AppendOwn packs the rest.
//
// Example: the facts about 1,000 running pods of one Deployment give one Metadata, one Spec, one or a few
// Skeletons, and 1,000 strings of some dozens of bytes.
//
// Invariants:
//
//   - Only messages in canonical form are split: fields ascending, repeated only in lists, as Kubernetes' generated
//     code writes them. Every other message is an error, and the caller decodes and encodes it again. So no message
//     is misread, and equal pods have equal bytes.
//   - Nothing is lost: metadata, spec and skeleton together with the individual data are the whole stripped pod.
//   - The packed form lives in the memory of one process. It is not a stored format and may change in every
//     release.
//
// The package is pure. Parts reuses its buffers and is for one goroutine; strings and Own values may be shared.
package wire
