package scaler

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/kubernetes"
)

const (
	// providerID begins the provider's name of a node that was added here, and marks it as one.
	providerID = "kwok:"
	// nameSuffix is how many letters a new node's name has after the template's.
	nameSuffix = 5
)

// Config describes the autoscaler.
type Config struct {
	Client kubernetes.Interface
	// Template is a node with labels, whose name begins those of the nodes that are added like it. There are at most Most.
	Template *corev1.Node
	Most     int
	// Every is the time between two loops.
	Every time.Duration
	// Unneeded is how long a node has to be superfluous. No node is removed within AfterAdd after nodes were added, or
	// after a removal failed.
	Unneeded, AfterAdd time.Duration
	// AfterTaint is the time between the taint of a node and its removal.
	AfterTaint time.Duration
	// AtOnce and DrainedAtOnce are how many nodes are removed at the same time, and how many of those are emptied.
	AtOnce, DrainedAtOnce int
	// Logf notes what is done. It may be called from several goroutines.
	Logf func(format string, args ...any)
}

// elastic reports whether a node was added here.
func (c Config) elastic(node *corev1.Node) bool {
	return len(node.Spec.ProviderID) > len(providerID) && node.Spec.ProviderID[:len(providerID)] == providerID
}

// count is how many of the nodes were added here.
func (c Config) count(nodes []*corev1.Node) int {
	n := 0
	for _, node := range nodes {
		if c.elastic(node) {
			n++
		}
	}
	return n
}

// template is a new node as the simulation sees it: with a kube-proxy on it.
func (c Config) template() *corev1.Node {
	const proxyCPU = 100
	node := c.Template.DeepCopy()
	free := node.Status.Allocatable.Cpu().MilliValue() - proxyCPU
	node.Status.Allocatable[corev1.ResourceCPU] = *resource.NewMilliQuantity(free, resource.DecimalSI)
	return node
}

// upcoming is a node that is not ready yet, as it will be.
func (c Config) upcoming(node *corev1.Node) *corev1.Node {
	soon := c.template()
	soon.Name, soon.Spec.ProviderID, soon.Labels = node.Name, node.Spec.ProviderID, maps.Clone(node.Labels)
	return soon
}

// scaler is the running autoscaler.
type scaler struct {
	Config
	mu struct {
		sync.Mutex
		*memory
	}
	removals sync.WaitGroup
}

// Run adds and removes nodes until ctx ends, and returns when no removal is under way any more. It continues when the
// cluster cannot be reached.
func Run(ctx context.Context, cfg Config) {
	s := &scaler{Config: cfg}
	s.mu.memory = newMemory()
	defer s.removals.Wait()
	ticker := time.NewTicker(cfg.Every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if err := s.loop(ctx); err != nil && ctx.Err() == nil {
				s.Logf("autoscaler: %v", err)
			}
		}
	}
}

func (s *scaler) loop(ctx context.Context) error {
	v, err := s.look(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	p := s.mu.decide(s.Config, v, time.Now())
	for _, name := range p.empty {
		s.mu.empty[name] = true
	}
	for _, name := range p.drain {
		s.mu.drained[name] = true
	}
	s.mu.Unlock()
	for range p.add {
		if err := s.add(ctx); err != nil {
			return err
		}
	}
	if p.add > 0 {
		s.Logf("autoscaler: added %d nodes", p.add)
	}
	for _, name := range slices.Concat(p.empty, p.drain) {
		s.removals.Go(func() { s.remove(ctx, name, slices.Contains(p.drain, name)) })
	}
	return nil
}

// add creates a node, with the label that its kubelet would add.
func (s *scaler) add(ctx context.Context) error {
	node := s.Template.DeepCopy()
	node.Name = s.Template.Name + "-" + utilrand.String(nameSuffix)
	node.Labels[corev1.LabelHostname] = node.Name
	node.Spec.ProviderID = providerID + node.Name
	_, err := s.Client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	return err
}

// look reads the cluster, from the API server's cache.
func (s *scaler) look(ctx context.Context) (view, error) {
	v := view{storage: storage{
		claims: map[string]*corev1.PersistentVolumeClaim{}, volumes: map[string]*corev1.PersistentVolume{},
	}}
	core, cached := s.Client.CoreV1(), metav1.ListOptions{ResourceVersion: "0"}
	nodes, err := core.Nodes().List(ctx, cached)
	if err != nil {
		return v, err
	}
	pods, err := core.Pods(metav1.NamespaceAll).List(ctx, cached)
	if err != nil {
		return v, err
	}
	budgets, err := s.Client.PolicyV1().PodDisruptionBudgets(metav1.NamespaceAll).List(ctx, cached)
	if err != nil {
		return v, err
	}
	claims, err := core.PersistentVolumeClaims(metav1.NamespaceAll).List(ctx, cached)
	if err != nil {
		return v, err
	}
	volumes, err := core.PersistentVolumes().List(ctx, cached)
	if err != nil {
		return v, err
	}
	v.nodes, v.pods, v.budgets = pointers(nodes.Items), pointers(pods.Items), pointers(budgets.Items)
	for _, c := range pointers(claims.Items) {
		v.claims[c.Namespace+"/"+c.Name] = c
	}
	for _, p := range pointers(volumes.Items) {
		v.volumes[p.Name] = p
	}
	return v, nil
}

func pointers[T any](items []T) []*T {
	list := make([]*T, len(items))
	for i := range items {
		list[i] = &items[i]
	}
	return list
}
