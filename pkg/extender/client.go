package extender

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	configv1 "k8s.io/kube-scheduler/config/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
)

const (
	// defaultTimeout bounds a call to an extender that sets no httpTimeout. Source: DefaultExtenderTimeout in
	// pkg/scheduler/extender.go.
	defaultTimeout = 5 * time.Second
	// maxAnswer bounds an answer, in bytes: the full node objects of a large cluster are some tens of megabytes.
	maxAnswer = 256 << 20
)

// Client calls one extender. It is safe for concurrent use; calls end with their context or after the configured
// timeout.
type Client struct {
	config configv1.Extender
	http   *http.Client
}

// NewClient returns the client of one extender; it makes no call yet. The error names the file of a certificate
// that cannot be used.
func NewClient(c configv1.Extender) (*Client, error) {
	timeout := c.HTTPTimeout.Duration
	if timeout == 0 {
		timeout = defaultTimeout
	}
	secured, err := tlsConfig(c)
	if err != nil {
		return nil, fmt.Errorf("extender %s: %w", address(c), err)
	}
	transport := utilnet.SetTransportDefaults(&http.Transport{TLSClientConfig: secured})
	return &Client{config: c, http: &http.Client{Transport: transport, Timeout: timeout}}, nil
}

// address names an extender in errors and logs: its URL without a password.
func address(c configv1.Extender) string {
	parsed, err := url.Parse(c.URLPrefix)
	switch {
	case err != nil:
		return "(not a URL)" // it may hold a password
	case parsed.User == nil:
		return c.URLPrefix
	}
	return parsed.Redacted()
}

// RefusedError reports that an extender answered that it did not do what was requested, in its own text or by a
// status other than 200.
type RefusedError struct{ Message string }

// Error returns the message as it is: events and conditions show it as upstream's do.
func (e *RefusedError) Error() string { return e.Message }

// filtered is the answer of a filter: the names of the nodes that it left, and why others failed, those that no
// eviction would help in unresolvable.
type filtered struct {
	left                 map[string]bool
	failed, unresolvable extenderv1.FailedNodesMap
}

// filter asks which of some nodes the pod may be placed on. An answer that contains other nodes is an error.
// (kube-scheduler treats it as an error only where names are exchanged; where whole nodes are, it continues with a
// node that it has never seen.)
func (c *Client) filter(ctx context.Context, pod *corev1.Pod, nodes []*corev1.Node) (filtered, error) {
	var answer extenderv1.ExtenderFilterResult
	if err := c.send(ctx, c.config.FilterVerb, c.question(pod, nodes), &answer); err != nil {
		return filtered{}, err
	}
	if answer.Error != "" {
		return filtered{}, &RefusedError{answer.Error}
	}
	// An extender that caches nodes answers with names, others with objects. An answer with neither leaves no node.
	var left []string
	switch {
	case c.config.NodeCacheCapable && answer.NodeNames != nil:
		left = *answer.NodeNames
	case answer.Nodes != nil:
		for i := range answer.Nodes.Items {
			left = append(left, answer.Nodes.Items[i].Name)
		}
	}
	asked := make(map[string]bool, len(nodes))
	for _, n := range nodes {
		asked[n.Name] = true
	}
	f := filtered{
		left: make(map[string]bool, len(left)), failed: answer.FailedNodes, unresolvable: answer.FailedAndUnresolvableNodes,
	}
	for _, name := range left {
		if !asked[name] {
			return filtered{}, fmt.Errorf("extender %q claims a filtered node %q which is not found in the input node list",
				address(c.config), name)
		}
		f.left[name] = true
	}
	return f, nil
}

// opinion returns the filter's opinion of a node that it was asked about. The zero Opinion accepts the node. The node
// is unresolvable if the answer says so, or does not mention it: upstream treats a node without a status as
// unresolvable.
func (f *filtered) opinion(node string) placement.Opinion {
	if f.left[node] {
		return placement.Opinion{}
	}
	// Both maps may name the node; then it is unresolvable, as in kube-scheduler.
	o, reason := placement.Opinion{Rejected: true}, f.failed[node]
	if why, hopeless := f.unresolvable[node]; hopeless {
		reason, o.Unresolvable = why, true
	} else if _, reported := f.failed[node]; !reported {
		o.Unresolvable = true
	}
	if reason != "" {
		o.Reasons = []string{reason}
	}
	return o
}

// prioritize asks for the scores of some nodes, which are 0 to 10 in the extender's own scale; the caller applies the
// weight.
func (c *Client) prioritize(
	ctx context.Context, pod *corev1.Pod, nodes []*corev1.Node,
) (list extenderv1.HostPriorityList, err error) {
	err = c.send(ctx, c.config.PrioritizeVerb, c.question(pod, nodes), &list)
	return list, err
}

// bind asks the extender to bind a pod. A *RefusedError means that it did not; after any other error the pod may be
// bound.
func (c *Client) bind(ctx context.Context, pod *state.Pod, node string) error {
	var answer extenderv1.ExtenderBindingResult
	question := &extenderv1.ExtenderBindingArgs{
		PodName: pod.Name, PodNamespace: pod.Namespace, PodUID: types.UID(pod.UID), Node: node,
	}
	if err := c.send(ctx, c.config.BindVerb, question, &answer); err != nil {
		return err
	}
	if answer.Error != "" {
		return &RefusedError{answer.Error}
	}
	return nil
}

// question builds the question about nodes: by name for an extender that caches nodes (nodeCacheCapable), else with
// the whole objects. On the wire it is, for the former,
//
//	{"Pod": {…}, "Nodes": null, "NodeNames": ["n1", "n2"]}
func (c *Client) question(pod *corev1.Pod, nodes []*corev1.Node) *extenderv1.ExtenderArgs {
	q := &extenderv1.ExtenderArgs{Pod: pod}
	if c.config.NodeCacheCapable {
		names := make([]string, len(nodes))
		for i, n := range nodes {
			names[i] = n.Name
		}
		q.NodeNames = &names
		return q
	}
	q.Nodes = &corev1.NodeList{Items: make([]corev1.Node, len(nodes))}
	for i, n := range nodes {
		q.Nodes.Items[i] = *n
	}
	return q
}

// send posts a question and decodes the answer into answer. Errors name the extender without its password. A status
// other than 200 is a *RefusedError, as in kube-scheduler; an answer is read to maxAnswer.
func (c *Client) send(ctx context.Context, verb string, question, answer any) error {
	body, err := json.Marshal(question)
	if err != nil {
		return fmt.Errorf("extender %s: %w", address(c.config), err)
	}
	target := strings.TrimRight(c.config.URLPrefix, "/") + "/" + verb
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		// An error must not show the password that a URL may have.
		if bad, ok := errors.AsType[*url.Error](err); ok {
			err = bad.Err // without the text, which may hold a password
		}
		return fmt.Errorf("extender %s: %w", address(c.config), err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return &RefusedError{fmt.Sprintf("failed %v with extender at URL %v, code %v", verb,
			strings.TrimRight(address(c.config), "/")+"/"+verb, response.StatusCode)}
	}
	return json.NewDecoder(io.LimitReader(response.Body, maxAnswer)).Decode(answer)
}

// close closes idle connections.
func (c *Client) close() { c.http.CloseIdleConnections() }
