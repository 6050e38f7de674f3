package nodemark

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

const (
	// Taint is the key of the taint on a node that is withheld, with the effect NoSchedule. The prefix makes it a
	// status taint of Cluster Autoscaler: the node counts as ready, its pods and its room are simulated with the taint,
	// and nodes that would be added to its group are simulated without it (utils/taints/taints.go, StatusTaintPrefix).
	// (With the prefix of a startup taint, the node would count as one that is about to become ready, and its room as
	// free.) To Karpenter it is a taint as any other, and the nodes that it would create do not have it.
	Taint = "status-taint.cluster-autoscaler.kubernetes.io/berth-withheld"
	// ScaleDownDisabled and DoNotDisrupt keep a node from being removed: by Cluster Autoscaler
	// (core/scaledown/eligibility/eligibility.go), and by Karpenter (pkg/controllers/state/statenode.go,
	// ValidateNodeDisruptable). Both must have the value "true".
	ScaleDownDisabled = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
	DoNotDisrupt      = "karpenter.sh/do-not-disrupt"
	// Annotation lists, with commas, what Berth has written to a node. Annotations that others have set are not in it,
	// and Berth does not remove them.
	Annotation = "berth.dev/marks"
	// FactAnnotation is on a node in the facts that has marks; its value is what Text returned. The API server does not
	// have this annotation.
	FactAnnotation = "berth.dev/marked"
)

// The words of Annotation. wordKept stands for Marks.Kept, and is there even if others had set both annotations before.
const (
	wordWithheld = "withheld"
	wordKept     = "kept"
)

// foreign are the annotations of autoscalers, by their words in Annotation.
var foreign = map[string]string{"scale-down-disabled": ScaleDownDisabled, "do-not-disrupt": DoNotDisrupt}

// set is the value of these annotations and of the taint.
const set = "true"

// Marks are the marks on a node.
type Marks struct {
	// Withheld: no pod is placed on the node for now, whatever room it has.
	Withheld bool
	// Kept: the node must not be removed, because places on it are promised to pods that are not bound yet.
	Kept bool
}

// Read returns the marks of a text that Text returned.
func Read(text string) Marks {
	words := split(text)
	return Marks{Withheld: slices.Contains(words, wordWithheld), Kept: slices.Contains(words, wordKept)}
}

// split returns the words of a text.
func split(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}

// String returns the marks as words with commas; "none" if there is none.
func (m Marks) String() string {
	var words []string
	if m.Withheld {
		words = append(words, wordWithheld)
	}
	if m.Kept {
		words = append(words, wordKept)
	}
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, ",")
}

// Text returns what a node of the API server shows of Berth's marks: the words of Annotation as far as they are still
// true, sorted; empty if there is none. The taint counts even if the annotation does not mention it.
func Text(n *corev1.Node) string {
	var words []string
	if slices.ContainsFunc(n.Spec.Taints, isMark) {
		words = append(words, wordWithheld)
	}
	for _, word := range split(n.Annotations[Annotation]) {
		key, known := foreign[word]
		if word == wordKept || known && n.Annotations[key] == set {
			words = append(words, word)
		}
	}
	slices.Sort(words)
	return strings.Join(slices.Compact(words), ",")
}

func isMark(t corev1.Taint) bool { return t.Key == Taint }

// Set changes the marks of a node in place, and reports whether that changed anything. The node's lists and maps must
// not be shared.
func Set(n *corev1.Node, want Marks) (changed bool) {
	before := n.DeepCopy()
	tainted := slices.ContainsFunc(n.Spec.Taints, isMark)
	switch {
	case want.Withheld && !tainted:
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: Taint, Value: set, Effect: corev1.TaintEffectNoSchedule})
	case !want.Withheld && tainted:
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, isMark)
	}
	keep(n, want.Kept)
	words := slices.DeleteFunc(split(Text(n)), func(w string) bool { return w == wordKept })
	if want.Kept {
		words = append(words, wordKept)
	}
	slices.Sort(words)
	annotate(n, Annotation, strings.Join(words, ","))
	return !equality.Semantic.DeepEqual(before, n)
}

// keep sets the autoscalers' annotations that a node lacks, or removes those that Berth has set. An annotation with
// another value is not Berth's, and stays.
func keep(n *corev1.Node, want bool) {
	own := split(n.Annotations[Annotation])
	for _, word := range slices.Sorted(maps.Keys(foreign)) {
		key := foreign[word]
		value, present := n.Annotations[key]
		switch {
		case want && !present:
			annotate(n, key, set)
			own = append(own, word)
		case !want && slices.Contains(own, word) && value == set:
			annotate(n, key, "")
		}
	}
	annotate(n, Annotation, strings.Join(own, ","))
}

// annotate sets an annotation, or removes it if the value is empty.
func annotate(n *corev1.Node, key, value string) {
	if value == "" {
		delete(n.Annotations, key)
		return
	}
	if n.Annotations == nil {
		n.Annotations = map[string]string{}
	}
	n.Annotations[key] = value
}

// Patch returns the JSON merge patch that gives a node exactly these marks, with its UID and resourceVersion as
// preconditions; needed is false if it has them. Taints are a list that a patch replaces as a whole: without the
// resourceVersion, it would undo what another writer did in between.
func Patch(n *corev1.Node, want Marks) (body []byte, needed bool, err error) {
	next := n.DeepCopy()
	if !Set(next, want) {
		return nil, false, nil
	}
	annotations := map[string]any{}
	for _, key := range []string{Annotation, ScaleDownDisabled, DoNotDisrupt} {
		before, was := n.Annotations[key]
		after, is := next.Annotations[key]
		switch {
		case is && (!was || before != after):
			annotations[key] = after
		case was && !is:
			annotations[key] = nil
		}
	}
	patch := map[string]any{"metadata": map[string]any{
		"uid": n.UID, "resourceVersion": n.ResourceVersion, "annotations": annotations,
	}}
	if !equality.Semantic.DeepEqual(n.Spec.Taints, next.Spec.Taints) {
		patch["spec"] = map[string]any{"taints": next.Spec.Taints}
	}
	body, err = json.Marshal(patch)
	if err != nil {
		return nil, false, fmt.Errorf("nodemark: patch of node %s: %w", n.Name, err)
	}
	return body, true, nil
}

// Marked reports whether a node has marks that Strip would replace. It allocates nothing.
func Marked(n *corev1.Node) bool {
	_, listed := n.Annotations[Annotation]
	return listed || slices.ContainsFunc(n.Spec.Taints, isMark)
}

// Strip replaces the marks of a node, in place, by a note of them (FactAnnotation), so that no decision sees them.
// Stripping twice has no further effect: the note of a node without marks stays.
func Strip(n *corev1.Node) {
	if !Marked(n) {
		return
	}
	text := Text(n)
	n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, isMark)
	if len(n.Spec.Taints) == 0 {
		n.Spec.Taints = nil
	}
	for _, word := range split(text) {
		delete(n.Annotations, foreign[word])
	}
	delete(n.Annotations, Annotation)
	annotate(n, FactAnnotation, text)
	if len(n.Annotations) == 0 {
		n.Annotations = nil
	}
}

// Stripped returns a node as Strip leaves it. A node without marks is returned itself, and any other as a copy that
// shares with it all but its annotations and taints.
func Stripped(n *corev1.Node) *corev1.Node {
	if !Marked(n) {
		return n
	}
	out := *n
	out.Annotations, out.Spec.Taints = maps.Clone(n.Annotations), slices.Clone(n.Spec.Taints)
	Strip(&out)
	return &out
}

// Disown removes, in place, a note of marks from a node that the API server has returned: only Strip makes notes, so
// that this one was written by others, or copied from a fact, and says nothing about the node.
func Disown(n *corev1.Node) {
	delete(n.Annotations, FactAnnotation)
	if len(n.Annotations) == 0 {
		n.Annotations = nil
	}
}
