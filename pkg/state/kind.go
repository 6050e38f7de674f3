package state

import (
	"encoding/binary"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/state/intern"
	"github.com/berth-scheduler/berth/pkg/state/wire"
)

// PodClass is everything that the placement rules of other pods see of a pod: its namespace and labels, whether it is
// being deleted, and its own inter-pod affinity. Two described pods of this process are of one kind exactly if they
// have the same *Kind, so code that counts pods for such rules may count kinds. It is immutable and shared, Labels
// included.
//
// The pointer is an identity and nothing else: it has no order, and no meaning after the last pod of the kind is
// gone. Code that iterates over a map of kinds must not let the order of the map reach a decision.
type PodClass struct {
	Namespace string
	Labels    map[string]string
	// Deleting: a deletionTimestamp is set.
	Deleting bool
	// Terms are the inter-pod affinity terms, nil when there are none.
	Terms *PodTerms
	// RequiredAntiAffinity: the pod has required anti-affinity terms, valid or not.
	RequiredAntiAffinity bool
}

// podKinds are the kinds of all pods of this process.
var podKinds intern.Table[PodClass]

// kindOf returns the kind of a pod. It keeps references to the labels and the affinity of obj.
func kindOf(obj *corev1.Pod) *PodClass {
	return podKinds.Get(kindKey(obj), func() *PodClass { return newKind(obj) })
}

// newKind derives a kind from a pod.
func newKind(obj *corev1.Pod) *PodClass {
	k := &PodClass{
		Namespace: obj.Namespace,
		Labels:    obj.Labels,
		Deleting:  obj.DeletionTimestamp != nil,
		Terms:     newPodTerms(obj),
	}
	if len(k.Labels) == 0 {
		k.Labels = nil // so that "no labels" has one form, whichever pod came first
	}
	if a := obj.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		k.RequiredAntiAffinity = len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0
	}
	return k
}

// kindKey encodes what determines a kind so that equal bytes are equal kinds: every part is preceded by its length,
// maps are sorted, and affinity is encoded as its own protobuf, whose maps are sorted too.
func kindKey(obj *corev1.Pod) []byte {
	key := make([]byte, 0, kindKeySize)
	key = wire.AppendSized(key, obj.Namespace)
	key = append(key, flag(obj.DeletionTimestamp != nil))
	key = appendLabels(key, obj.Labels)
	a := obj.Spec.Affinity
	if a == nil {
		return key
	}
	if a.PodAffinity != nil {
		key = wire.AppendSized(append(key, 'w'), Marshalled(a.PodAffinity))
	}
	if a.PodAntiAffinity != nil {
		key = wire.AppendSized(append(key, 'a'), Marshalled(a.PodAntiAffinity))
	}
	return key
}

const (
	// kindKeySize is room for the key of most kinds.
	kindKeySize = 512
	// usualLabels is room for the labels of most pods.
	usualLabels = 16
)

// appendLabels writes labels in the order of their names, preceded by their number.
func appendLabels(b []byte, set map[string]string) []byte {
	var room [usualLabels]string
	names := room[:0]
	for name := range set {
		names = append(names, name)
	}
	slices.Sort(names)
	b = binary.AppendUvarint(b, uint64(len(names)))
	for _, name := range names {
		b = wire.AppendSized(wire.AppendSized(b, name), set[name])
	}
	return b
}
