package nodes

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-helpers/nodedeclaredfeatures"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// DeclaredFeatures keeps pods off nodes whose kubelet does not declare a feature they need. Source:
// plugins/nodedeclaredfeatures.
type DeclaredFeatures struct{}

// featureVersion is the Kubernetes version whose features are distinguished: features that every kubelet of that
// version has need no declaration.
const featureVersion = "1.36.3"

// featureFilter is the rule for one pod with the features that it needs.
type featureFilter struct {
	rule.Reason
	needs nodedeclaredfeatures.FeatureSet
}

// Name implements Plugin.
func (DeclaredFeatures) Name() string { return names.NodeDeclaredFeatures }

// Compile implements Plugin.
func (DeclaredFeatures) Compile(pod *state.Pod, _ rule.Objects) (rule.Compiled, error) {
	needs, err := featuresOf(pod)
	if err != nil || needs.IsEmpty() {
		return rule.Compiled{}, err
	}
	return rule.Compiled{Filter: featureFilter{"node(s) didn't match Pod's required features", needs}}, nil
}

// featuresOf infers the features that a pod needs from its spec.
func featuresOf(pod *state.Pod) (nodedeclaredfeatures.FeatureSet, error) {
	info := &nodedeclaredfeatures.PodInfo{Spec: &pod.Template.Spec}
	return nodedeclaredfeatures.DefaultFramework.InferForPodScheduling(info, version.MustParseGeneric(featureVersion))
}

// Check implements Filter. A node whose features cannot be evaluated fails.
func (f featureFilter) Check(n *state.NodeInfo) rule.Code {
	match, err := nodedeclaredfeatures.DefaultFramework.MatchNode(f.needs, n.Node.Object)
	if err != nil || !match.IsMatch {
		return rule.UnschedulableAndUnresolvable
	}
	return rule.Success
}

// Events implements Plugin.
func (DeclaredFeatures) Events() []rule.Event {
	return []rule.Event{
		{Kind: events.KindNode, Actions: rule.Add | rule.UpdateNodeDeclaredFeature},
		{Kind: events.KindPod, Actions: rule.Update},
	}
}

// Hint implements Plugin. A node helps if it is new or declares other features; the pod itself if it needs
// others.
func (DeclaredFeatures) Hint(pod *state.Pod, c rule.Change) bool {
	if c.Kind == events.KindNode {
		return c.OldNode == nil ||
			!slices.Equal(c.OldNode.Object.Status.DeclaredFeatures, c.NewNode.Object.Status.DeclaredFeatures)
	}
	if !c.IsOf(pod) || c.OldPod == nil {
		return false
	}
	before, err := featuresOf(c.OldPod)
	if err != nil {
		return true
	}
	after, err := featuresOf(c.NewPod)
	return err != nil || !after.Equal(before)
}

// Interest implements rule.Classifier.
func (DeclaredFeatures) Interest(*state.Pod) rule.Interest {
	return rule.Interest{Nodes: rule.Everything}
}

// OnlyTraits reports that the filter reads only traits of a node: its declared features.
func (featureFilter) OnlyTraits() bool { return true }
