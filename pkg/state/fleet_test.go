package state_test

import (
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
	"github.com/berth-scheduler/berth/pkg/state/strip"
)

// fleet is a set of running pods as the API server shows them, 30 on a node: of Deployments with that many pods
// each or, with ordinals, of StatefulSets, whose pods have individual labels and hostnames.
type fleet struct {
	pods, perTemplate int
	ordinals          bool
}

const (
	podsPerNode   = 30
	factsPerBatch = 500
)

// each calls visit with the facts of all pods, batch by batch.
func (f fleet) each(visit func([]events.SequencedFact)) {
	var batch []events.SequencedFact
	for i := range f.pods {
		obj := f.pod(i)
		strip.Strip(obj)
		data, err := obj.Marshal()
		if err != nil {
			panic(err)
		}
		batch = append(batch, events.SequencedFact{Sequence: uint64(i) + 1, Fact: events.Fact{
			Kind: events.KindPod, Op: events.OpUpsert, UID: string(obj.UID), Namespace: obj.Namespace,
			Name: obj.Name, ResourceVersion: uint64(1000 + i), Object: data,
		}})
		if len(batch) == factsPerBatch || i == f.pods-1 {
			visit(batch)
			batch = nil
		}
	}
}

// scatter spreads numbers, so that the pods of a template are all over the cluster, and UIDs and names are in no
// order.
func scatter(i int) uint64 {
	x := uint64(i+1) * 0x9E3779B97F4A7C15
	x ^= x >> 29
	x *= 0xBF58476D1CE4E5B9
	return x ^ x>>32
}

func (f fleet) pod(i int) *corev1.Pod {
	template := i % max(f.pods/f.perTemplate, 1)
	app, hash := fmt.Sprintf("shop-service-%04d", template), fmt.Sprintf("%08x", scatter(template)>>36)
	node := scatter(i) % uint64(max(f.pods/podsPerNode, 1))
	at := metav1.NewTime(time.Unix(1_700_000_000+int64(scatter(i)%5_000_000), 0))
	pod := &corev1.Pod{
		ObjectMeta: fleetMeta(app, hash, i),
		Spec:       fleetSpec(app, i),
		Status:     fleetStatus(at, i),
	}
	pod.Namespace = fmt.Sprintf("team-%03d", template%200)
	pod.CreationTimestamp = at
	pod.Spec.NodeName = fmt.Sprintf("ip-10-%d-%d.example.internal", node>>8, node&0xff)
	yes := true
	for n, c := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, Ready: true, Started: &yes, RestartCount: int32(scatter(i+n) % 3),
			ImageID: "sha256:" + hash, ContainerID: fmt.Sprintf("containerd://%x", scatter(i+n)),
			State:              corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at}},
			AllocatedResources: c.Resources.Requests, Resources: c.Resources.DeepCopy(),
		})
	}
	if f.ordinals {
		pod.Labels["apps.kubernetes.io/pod-index"] = strconv.Itoa(i)
		pod.Labels["statefulset.kubernetes.io/pod-name"] = pod.Name
		pod.Spec.Hostname, pod.Spec.Subdomain = pod.Name, app
	}
	return pod
}

func fleetMeta(app, hash string, i int) metav1.ObjectMeta {
	x, yes := scatter(i), true
	uid := fmt.Sprintf("%08x-%04x-4%03x-a%03x-%012x", x>>32, i&0xffff, x&0xfff, i>>16, x&0xffffffffffff)
	return metav1.ObjectMeta{
		Name: fmt.Sprintf("%s-%s-%05x", app, hash, x&0xfffff), GenerateName: app + "-" + hash + "-",
		UID: types.UID(uid), ResourceVersion: strconv.Itoa(1000 + i), Generation: 1,
		Labels: map[string]string{
			"app.kubernetes.io/name": app, "app.kubernetes.io/instance": app, "app.kubernetes.io/version": "v1.2.3",
			"app.kubernetes.io/part-of": "shop", "team": "shop", "pod-template-hash": hash,
		},
		Annotations: map[string]string{
			"prometheus.io/scrape": "true", "prometheus.io/port": "8080",
			"example.com/attempt": fmt.Sprintf("%016x%016x", scatter(i+1), x),
		},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app + "-" + hash, UID: types.UID("uid-of-" + app),
			Controller: &yes, BlockOwnerDeletion: &yes,
		}},
	}
}

func fleetSpec(app string, i int) corev1.PodSpec {
	yes, grace, tolerate := true, int64(30), int64(300)
	priority, preempt := int32(0), corev1.PreemptLowerPriority
	toleration := func(key string) corev1.Toleration {
		return corev1.Toleration{Key: key, Operator: "Exists", Effect: "NoExecute", TolerationSeconds: &tolerate}
	}
	return corev1.PodSpec{
		Volumes: []corev1.Volume{
			{Name: fmt.Sprintf("kube-api-access-%05x", scatter(i)>>44), VolumeSource: corev1.VolumeSource{
				Projected: &corev1.ProjectedVolumeSource{}}},
			{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: app}}}},
		},
		Containers: []corev1.Container{
			fleetContainer("main", "registry.example.com/shop/"+app+":v1.2.3", 8080),
			fleetContainer("proxy", "registry.example.com/mesh/proxy:1.20.1", 15001),
		},
		RestartPolicy: "Always", TerminationGracePeriodSeconds: &grace, DNSPolicy: "ClusterFirst",
		ServiceAccountName: app, DeprecatedServiceAccount: app, SecurityContext: &corev1.PodSecurityContext{},
		SchedulerName: "berth", Priority: &priority, PreemptionPolicy: &preempt, EnableServiceLinks: &yes,
		Tolerations: []corev1.Toleration{
			toleration("node.kubernetes.io/not-ready"), toleration("node.kubernetes.io/unreachable"),
		},
	}
}

func fleetContainer(name, image string, port int32) corev1.Container {
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

func fleetStatus(at metav1.Time, i int) corev1.PodStatus {
	x := scatter(i)
	s := corev1.PodStatus{
		Phase: "Running", QOSClass: "Burstable", StartTime: &at, ObservedGeneration: 1,
		HostIP: "10.0.0.1", PodIP: fmt.Sprintf("10.%d.%d.%d", x>>16&0xff, x>>8&0xff, x&0xff),
	}
	for n, c := range []corev1.PodConditionType{
		"PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"} {
		s.Conditions = append(s.Conditions, corev1.PodCondition{
			Type: c, Status: "True", ObservedGeneration: 1,
			LastTransitionTime: metav1.NewTime(at.Add(time.Duration(n) * time.Second)),
		})
	}
	return s
}
