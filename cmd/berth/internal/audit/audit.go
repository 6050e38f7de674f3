package audit

import (
	"context"
	"fmt"
	"sort"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
)

// AttemptAnnotation stands on every pod that Berth bound.
const AttemptAnnotation = "berth.dev/attempt"

// pageSize bounds one list answer.
const pageSize = 2000

// Severity of a finding.
type Severity string

const (
	// Violation is a broken promise.
	Violation Severity = "violation"
	// Warning is a state that Berth did not make, or that may have changed since.
	Warning Severity = "warning"
)

// Finding is one thing that should not be.
type Finding struct {
	Severity Severity `json:"severity"`
	// Rule names the check: overcommit, unknown-node, unfit, double-port.
	Rule    string `json:"rule"`
	Object  string `json:"object"`
	Message string `json:"message"`
}

// Report is the result of an audit.
type Report struct {
	Nodes    int       `json:"nodes"`
	Pods     int       `json:"pods"`
	Bound    int       `json:"bound"`
	ByBerth  int       `json:"boundByBerth"`
	Pending  int       `json:"pending"`
	Findings []Finding `json:"findings"`
}

// Violations counts the findings of that severity.
func (r Report) Violations() int {
	n := 0
	for _, f := range r.Findings {
		if f.Severity == Violation {
			n++
		}
	}
	return n
}

// Run lists the cluster and checks it.
func Run(ctx context.Context, client kubernetes.Interface) (Report, error) {
	nodes, err := listNodes(ctx, client)
	if err != nil {
		return Report{}, fmt.Errorf("list nodes: %w", err)
	}
	pods, err := listPods(ctx, client)
	if err != nil {
		return Report{}, fmt.Errorf("list pods: %w", err)
	}
	return Check(nodes, pods), nil
}

// Check is the audit itself, on objects.
func Check(nodes []corev1.Node, pods []corev1.Pod) Report {
	r := Report{Nodes: len(nodes), Pods: len(pods)}
	infos := map[string]*state.NodeInfo{}
	for i := range nodes {
		infos[nodes[i].Name] = state.NewNodeInfo(state.NewNode(&nodes[i]))
	}
	var bound []*state.Pod
	for i := range pods {
		p := state.NewPod(&pods[i])
		if p.NodeName == "" {
			if !p.Terminal {
				r.Pending++
			}
			continue
		}
		r.Bound++
		if byBerth(p) {
			r.ByBerth++
		}
		if p.Terminal {
			continue
		}
		info, ok := infos[p.NodeName]
		if !ok {
			r.add(severityOf(p), "unknown-node", podName(p), "is bound to node "+p.NodeName+", which does not exist")
			continue
		}
		info.AddPod(p)
		bound = append(bound, p)
	}
	for _, n := range nodes {
		r.checkNode(infos[n.Name])
	}
	for _, p := range bound {
		r.checkPod(p, infos[p.NodeName])
	}
	sort.SliceStable(r.Findings, func(i, j int) bool { return r.Findings[i].Object < r.Findings[j].Object })
	return r
}

func (r *Report) add(s Severity, rule, object, message string) {
	r.Findings = append(r.Findings, Finding{Severity: s, Rule: rule, Object: object, Message: message})
}

// checkNode holds what is requested on one node, the number of pods included, against its
// allocatable.
func (r *Report) checkNode(n *state.NodeInfo) {
	severity := Violation
	for p := range n.Pods() {
		if !byBerth(p) {
			// Somebody else put pods here too: what they took is not for Berth to answer for.
			severity = Warning
		}
	}
	used, room := n.Requested.Map(), n.Node.Allocatable.Map()
	names := make([]string, 0, len(used))
	for name := range used {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		if used[name] > room[name] {
			r.add(severity, "overcommit", "node/"+n.Node.Name,
				fmt.Sprintf("%s: requested %d, allocatable %d", name, used[name], room[name]))
		}
	}
}

// placementRules are the filters a bound pod can be held to from the API's state alone;
// capacity is checked per node.
var placementRules = []string{"NodeName", "NodeAffinity", "NodePorts", "TaintToleration", "NodeUnschedulable"}

// checkPod asks the placement rules about the node the pod stands on, without the pod.
func (r *Report) checkPod(p *state.Pod, n *state.NodeInfo) {
	if !byBerth(p) {
		return
	}
	rest := n.Clone()
	rest.RemovePod(p.UID)
	for _, rule := range placementRules {
		reason := r.objection(rule, p, rest)
		if reason == "" {
			continue
		}
		severity := Violation
		if rule == "TaintToleration" || rule == "NodeUnschedulable" {
			severity = Warning // taints and cordons may have come after the bind, and do not undo it
		}
		r.add(severity, "unfit", podName(p), fmt.Sprintf("on node %s: %s", n.Node.Name, reason))
	}
}

// objection asks one placement rule about one node; "" when it has none.
func (r *Report) objection(rule string, p *state.Pod, n *state.NodeInfo) string {
	profile, err := placement.NewProfile(placement.ProfileConfig{
		SchedulerName: corev1.DefaultSchedulerName, Plugins: []placement.PluginConfig{{Name: rule}},
	})
	if err != nil {
		return err.Error()
	}
	result := profile.Evaluate(placement.Input{Pod: p, Nodes: []*state.NodeInfo{n}})
	if result.Err != nil {
		return result.Err.Error()
	}
	if result.FeasibleCount > 0 {
		return ""
	}
	return result.Diagnosis.Message()
}

func byBerth(p *state.Pod) bool { return p.Annotation(AttemptAnnotation) != "" }

func severityOf(p *state.Pod) Severity {
	if byBerth(p) {
		return Violation
	}
	return Warning
}

func podName(p *state.Pod) string { return "pod/" + p.Namespace + "/" + p.Name }

func listNodes(ctx context.Context, client kubernetes.Interface) ([]corev1.Node, error) {
	var all []corev1.Node
	opts := metav1.ListOptions{Limit: pageSize}
	for {
		page, err := client.CoreV1().Nodes().List(ctx, opts)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if opts.Continue = page.Continue; opts.Continue == "" {
			return all, nil
		}
	}
}

func listPods(ctx context.Context, client kubernetes.Interface) ([]corev1.Pod, error) {
	var all []corev1.Pod
	opts := metav1.ListOptions{Limit: pageSize}
	for {
		page, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, opts)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if opts.Continue = page.Continue; opts.Continue == "" {
			return all, nil
		}
	}
}
