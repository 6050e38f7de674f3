package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

const (
	// boundTimeout bounds the wait for all pods to be placed.
	boundTimeout = 2 * time.Minute
	// watchBuffer is how many pod updates may wait to be looked at.
	watchBuffer = 4096
)

// podPath is the watch's view of one pod.
type podPath struct {
	uid, name, app, node string
	created, bound       time.Time
}

// sighting is one version of a pod and when it was seen.
type sighting struct {
	pod *corev1.Pod
	at  time.Time
}

// podWatch sees every version of every pod of the demo; it starts before the first exists,
// so that every time is its own.
type podWatch struct {
	factory informers.SharedInformerFactory
	seen    chan sighting
}

func watchPods(ctx context.Context, client kubernetes.Interface) (*podWatch, error) {
	w := &podWatch{
		factory: informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace)),
		seen:    make(chan sighting, watchBuffer),
	}
	see := func(obj any) {
		pod, ok := obj.(*corev1.Pod)
		if !ok {
			return
		}
		select {
		case w.seen <- sighting{pod: pod, at: time.Now()}:
		case <-ctx.Done():
		}
	}
	informer := w.factory.Core().V1().Pods().Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    see,
		UpdateFunc: func(_, obj any) { see(obj) },
	})
	if err != nil {
		return nil, err
	}
	w.factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil, errors.New("the watch on pods did not start")
	}
	return w, nil
}

// waitBound collects pods until want of them are bound.
func (w *podWatch) waitBound(ctx context.Context, want int) (map[string]*podPath, error) {
	ctx, cancel := context.WithTimeout(ctx, boundTimeout)
	defer cancel()
	paths := map[string]*podPath{}
	bound := 0
	for bound < want {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%d of %d pods placed after %s: %w", bound, want, boundTimeout, ctx.Err())
		case s := <-w.seen:
			if note(paths, s) {
				bound++
			}
		}
	}
	return paths, nil
}

// note records a sighting of a pod; it returns true if the pod has just been bound.
func note(paths map[string]*podPath, s sighting) bool {
	path := paths[string(s.pod.UID)]
	if path == nil {
		path = &podPath{uid: string(s.pod.UID), name: s.pod.Name, app: s.pod.Labels["app"], created: s.at}
		paths[path.uid] = path
	}
	if path.node != "" || s.pod.Spec.NodeName == "" {
		return false
	}
	path.node, path.bound = s.pod.Spec.NodeName, s.at
	return true
}
