package neighbours

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// watcher keeps a history from the API server's watches until its context ends. Safe for concurrent use.
type watcher struct {
	mu struct {
		sync.Mutex
		history *history
		err     error
	}
}

// source is one kind of objects that is followed.
type source struct {
	name string
	// version lists the kind, of which there is nothing that counts yet, and returns the version of the list.
	version func(context.Context) (string, error)
	watch   func(context.Context, metav1.ListOptions) (watch.Interface, error)
}

func sources(client kubernetes.Interface) []source {
	core, all, one := client.CoreV1(), metav1.NamespaceAll, metav1.ListOptions{Limit: 1}
	return []source{
		{"pods", func(ctx context.Context) (string, error) {
			list, err := core.Pods(all).List(ctx, one)
			return versionOf(list, err)
		}, core.Pods(all).Watch},
		{"nodes", func(ctx context.Context) (string, error) {
			list, err := core.Nodes().List(ctx, one)
			return versionOf(list, err)
		}, core.Nodes().Watch},
		{"claims", func(ctx context.Context) (string, error) {
			list, err := core.PersistentVolumeClaims(all).List(ctx, one)
			return versionOf(list, err)
		}, core.PersistentVolumeClaims(all).Watch},
	}
}

func versionOf(list metav1.ListInterface, err error) (string, error) {
	if err != nil {
		return "", err
	}
	return list.GetResourceVersion(), nil
}

// watchAll begins a history of all pods, nodes and claims that change from now on, until the scene ends.
func watchAll(ctx context.Context, s *Scene) (*watcher, error) {
	ctx, cancel := context.WithCancel(ctx)
	s.AtEnd(func(context.Context) error { cancel(); return nil })
	w := &watcher{}
	w.mu.history = newHistory()
	for _, from := range sources(s.Client) {
		version, err := from.version(ctx)
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", from.name, err)
		}
		// An API server under load closes watches; this one resumes where it ended.
		stream, err := watchtools.NewRetryWatcherWithContext(ctx, version, &cache.ListWatch{
			WatchFuncWithContext: from.watch,
		})
		if err != nil {
			return nil, fmt.Errorf("watch %s: %w", from.name, err)
		}
		go w.follow(ctx, from.name, stream)
	}
	return w, nil
}

func (w *watcher) follow(ctx context.Context, name string, stream watch.Interface) {
	for event := range stream.ResultChan() {
		if err := w.note(event); err != nil {
			w.fail(fmt.Errorf("watch of %s: %w", name, err))
		}
	}
	if ctx.Err() == nil {
		w.fail(fmt.Errorf("the watch of %s ended by itself", name))
	}
}

func (w *watcher) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.err = errors.Join(w.mu.err, err)
}

func (w *watcher) note(event watch.Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	gone := event.Type == watch.Deleted
	switch o := event.Object.(type) {
	case *corev1.Pod:
		return w.mu.history.pod(o, gone, time.Now())
	case *corev1.Node:
		return w.mu.history.node(o, gone)
	case *corev1.PersistentVolumeClaim:
		return w.mu.history.claim(o)
	default:
		return fmt.Errorf("%s: %+v", event.Type, event.Object)
	}
}

// look calls a function with the history, and returns the error of the watches.
func (w *watcher) look(look func(*history)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	look(w.mu.history)
	return w.mu.err
}
