package state_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/strip"
)

// standing is how many pods stay while others live, alive how many of those exist at one time, and cycle how many
// live in all.
const (
	standing = 50_000
	alive    = 400
	cycle    = 4_000
)

// lives returns the facts of a cycle of lives, next to pods of the same templates that stay: pods come, are bound, run,
// are deleted and go, alive of them at a time. They leave nothing behind, so that the cycle can be repeated.
func lives(f fleet) []events.SequencedFact {
	var list []events.SequencedFact
	for turn := range cycle + alive {
		for step := range lifeSteps {
			if i := turn - step*alive/(lifeSteps-1); i >= 0 && i < cycle {
				list = append(list, lifeFact(f, standing+i, step))
			}
		}
	}
	return list
}

// The steps of a life: each is a fact.
const (
	lifePending = iota
	lifeBound
	lifeRunning
	lifeDeleting
	lifeGone
	lifeSteps
)

// lifeFact returns the fact of one step of a pod's life, without a sequence.
func lifeFact(f fleet, i, step int) events.SequencedFact {
	pod := f.pod(i)
	if step < lifeBound {
		pod.Spec.NodeName = ""
	}
	if step < lifeRunning {
		pod.Status = corev1.PodStatus{Phase: "Pending", QOSClass: "Burstable"}
	}
	if step == lifeBound {
		pod.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: "True", LastTransitionTime: pod.CreationTimestamp,
		}}
	}
	if step >= lifeDeleting {
		grace, now := int64(30), metav1.Unix(1_700_000_100, 0)
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &now, &grace
	}
	fact := events.Fact{
		Kind: events.KindPod, Op: events.OpDelete, UID: string(pod.UID), Namespace: pod.Namespace, Name: pod.Name,
	}
	if step < lifeGone {
		strip.Strip(pod)
		data, err := pod.Marshal()
		if err != nil {
			panic(err)
		}
		fact.Op, fact.Object = events.OpUpsert, data
	}
	return events.SequencedFact{Fact: fact}
}

// BenchmarkLives applies the facts about lives of pods in batches of several sizes: processor time, bytes and
// allocations a fact, garbage collection included.
func BenchmarkLives(b *testing.B) {
	for _, templates := range []int{10, 1000} {
		for _, batch := range []int{1, 16, 256} {
			b.Run(fmt.Sprintf("templates=%d/batch=%d", templates, batch), func(b *testing.B) {
				benchmarkLives(b, fleet{pods: standing, perTemplate: standing / templates}, batch)
			})
		}
	}
}

func benchmarkLives(b *testing.B, f fleet, batch int) {
	store := state.New()
	f.each(func(facts []events.SequencedFact) {
		if _, err := store.Apply(facts); err != nil {
			b.Fatal(err)
		}
	})
	list := lives(f)
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := cpuTime(b)
	facts := 0
	for b.Loop() {
		last := store.Position().Sequence
		for i := range list {
			last++
			list[i].Sequence, list[i].ResourceVersion, list[i].Progress = last, last, last
		}
		for part := range slices.Chunk(list, batch) {
			if _, err := store.Apply(part); err != nil {
				b.Fatal(err)
			}
		}
		facts += len(list)
	}
	per := func(what string, n float64) { b.ReportMetric(n/float64(facts), what+"/fact") }
	per("cpu-ns", float64(cpuTime(b)-began))
	runtime.ReadMemStats(&after)
	per("B", float64(after.TotalAlloc-before.TotalAlloc))
	per("allocs", float64(after.Mallocs-before.Mallocs))
	runtime.KeepAlive(store)
}

// cpuTime returns the processor time of the process: the wall time of a shared machine says nothing.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkPodByUID looks pods up.
func BenchmarkPodByUID(b *testing.B) {
	store := state.New()
	fleet{pods: standing, perTemplate: 50}.each(func(batch []events.SequencedFact) {
		if _, err := store.Apply(batch); err != nil {
			b.Fatal(err)
		}
	})
	var uids []string
	for pod := range store.Snapshot().Pods() {
		uids = append(uids, strings.Clone(pod.UID))
	}
	s, i := store.Snapshot(), 0
	b.ReportAllocs()
	began := cpuTime(b)
	for b.Loop() {
		if _, ok := s.Pod(uids[int(scatter(i)%uint64(len(uids)))]); !ok {
			b.Fatal("a pod is missing")
		}
		i++
	}
	b.ReportMetric(float64(cpuTime(b)-began)/float64(i), "cpu-ns/read")
}
