package state_test

import (
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
)

// fleet is pods as the API server shows those that run, 30 on a node: of Deployments with
// so many pods each or, with ordinals, of StatefulSets, whose pods have labels and hostnames
// of their own.
type fleet struct {
	pods, perTemplate int
	ordinals          bool
}

const (
	podsPerNode   = 30
	factsPerBatch = 500
)

// each calls visit with the facts of all pods, batch by batch.
func (d fleet) each(visit func([]events.SequencedFact)) {
	var batch []events.SequencedFact
	for i := range d.pods {
		obj := d.pod(i)
		state.Strip(obj)
		data, err := obj.Marshal()
		if err != nil {
			panic(err)
		}
		batch = append(batch, events.SequencedFact{Sequence: uint64(i) + 1, Fact: events.Fact{
			Kind: events.KindPod, Op: events.OpUpsert, UID: string(obj.UID), Namespace: obj.Namespace,
			Name: obj.Name, ResourceVersion: uint64(1000 + i), Object: data,
		}})
		if len(batch) == factsPerBatch || i == d.pods-1 {
			visit(batch)
			batch = nil
		}
	}
}

// scatter spreads numbers so that pods of one template stand all over the cluster, and
// their UIDs and names in no order.
func scatter(i int) uint64 {
	x := uint64(i+1) * 0x9E3779B97F4A7C15
	x ^= x >> 29
	x *= 0xBF58476D1CE4E5B9
	return x ^ x>>32
}

func (d fleet) pod(i int) *corev1.Pod {
	templates := max(d.pods/d.perTemplate, 1)
	nodes := max(d.pods/podsPerNode, 1)
	template := i % templates
	app := fmt.Sprintf("shop-service-%04d", template)
	hash := fmt.Sprintf("%08x", scatter(template)>>36)
	x := scatter(i)
	yes, grace, tolerate := true, int64(30), int64(300)
	priority, preempt := int32(0), corev1.PreemptLowerPriority
	at := metav1.NewTime(time.Unix(1_700_000_000+int64(x%5_000_000), 0))
	later := func(s int64) metav1.Time { return metav1.NewTime(at.Add(time.Duration(s) * time.Second)) }
	container := func(name, image string, port int32) corev1.Container {
		return corev1.Container{
			Name: name, Image: image, Ports: []corev1.ContainerPort{{ContainerPort: port, Protocol: "TCP", Name: "http"}},
			Resources: corev1.ResourceRequirements{
				Requests: statetest.List("cpu", "250m", "memory", "256Mi"),
				Limits:   statetest.List("cpu", "1", "memory", "512Mi"),
			},
			Env: []corev1.EnvVar{{Name: "A", Value: "b"}}, ImagePullPolicy: "IfNotPresent",
			TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: "File",
		}
	}
	containers := []corev1.Container{
		container("main", "registry.example.com/shop/"+app+":v1.2.3", 8080),
		container("proxy", "registry.example.com/mesh/proxy:1.20.1", 15001),
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-%s-%05x", app, hash, x&0xfffff), GenerateName: app + "-" + hash + "-",
			Namespace:       fmt.Sprintf("team-%03d", template%200),
			UID:             types.UID(fmt.Sprintf("%08x-%04x-4%03x-a%03x-%012x", x>>32, i&0xffff, x&0xfff, i>>16, x&0xffffffffffff)),
			ResourceVersion: strconv.Itoa(1000 + i), Generation: 1, CreationTimestamp: at,
			Labels: map[string]string{
				"app.kubernetes.io/name": app, "app.kubernetes.io/instance": app, "app.kubernetes.io/version": "v1.2.3",
				"app.kubernetes.io/part-of": "shop", "team": "shop", "pod-template-hash": hash,
			},
			Annotations: map[string]string{
				"prometheus.io/scrape": "true", "prometheus.io/port": "8080",
				"berth.dev/attempt": fmt.Sprintf("%016x%016x", scatter(i+1), x),
			},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app + "-" + hash,
				UID: types.UID(fmt.Sprintf("%08x-0000-4000-8000-000000000000", template)), Controller: &yes, BlockOwnerDeletion: &yes,
			}},
		},
		Spec: corev1.PodSpec{
			Volumes: []corev1.Volume{
				{Name: fmt.Sprintf("kube-api-access-%05x", x>>44), VolumeSource: corev1.VolumeSource{
					Projected: &corev1.ProjectedVolumeSource{}}},
				{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
					LocalObjectReference: corev1.LocalObjectReference{Name: app}}}},
			},
			Containers: containers, RestartPolicy: "Always", TerminationGracePeriodSeconds: &grace, DNSPolicy: "ClusterFirst",
			ServiceAccountName: app, DeprecatedServiceAccount: app, SecurityContext: &corev1.PodSecurityContext{},
			NodeName:      fmt.Sprintf("ip-10-%d-%d.example.internal", x%uint64(nodes)>>8, x%uint64(nodes)&0xff),
			SchedulerName: "berth", Priority: &priority, PreemptionPolicy: &preempt, EnableServiceLinks: &yes,
			Tolerations: []corev1.Toleration{
				{Key: "node.kubernetes.io/not-ready", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: &tolerate},
				{Key: "node.kubernetes.io/unreachable", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: &tolerate},
			},
		},
		Status: corev1.PodStatus{
			Phase: "Running", QOSClass: "Burstable", StartTime: &at, ObservedGeneration: 1,
			HostIP: "10.0.0.1", PodIP: fmt.Sprintf("10.%d.%d.%d", x>>16&0xff, x>>8&0xff, x&0xff),
		},
	}
	for n, c := range []corev1.PodConditionType{
		"PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: c, Status: "True", LastTransitionTime: later(int64(n)), ObservedGeneration: 1,
		})
	}
	for _, c := range containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, Ready: true, Started: &yes, ImageID: "sha256:" + hash, ContainerID: "containerd://" + hash,
			State:              corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: later(int64(x % 60))}},
			AllocatedResources: c.Resources.Requests, Resources: c.Resources.DeepCopy(),
		})
	}
	if d.ordinals {
		pod.Labels["apps.kubernetes.io/pod-index"] = strconv.Itoa(i)
		pod.Labels["statefulset.kubernetes.io/pod-name"] = pod.Name
		pod.Spec.Hostname, pod.Spec.Subdomain = pod.Name, app
	}
	return pod
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkApplyPods applies the facts of pods that run: time per fact, and what the store
// keeps of each.
func BenchmarkApplyPods(b *testing.B) {
	for name, f := range map[string]fleet{
		"deployments":  {pods: 50_000, perTemplate: 50},
		"statefulsets": {pods: 50_000, perTemplate: 50, ordinals: true},
		"singles":      {pods: 50_000, perTemplate: 1},
	} {
		b.Run(name, func(b *testing.B) { benchmarkApplyPods(b, f) })
	}
}

func benchmarkApplyPods(b *testing.B, fleet fleet) {
	var batches [][]events.SequencedFact
	fleet.each(func(f []events.SequencedFact) { batches = append(batches, f) })
	var kept uint64
	for b.Loop() {
		b.StopTimer()
		before := heap()
		store := state.New()
		b.StartTimer()
		for _, batch := range batches {
			if _, err := store.Apply(batch); err != nil {
				b.Fatal(err)
			}
		}
		b.StopTimer()
		kept = heap() - before
		runtime.KeepAlive(store)
		b.StartTimer()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*fleet.pods), "ns/pod")
	b.ReportMetric(float64(kept)/float64(fleet.pods), "B/pod")
}
