package intake

import (
	"context"
	"errors"
	"strconv"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// server is an API server as a resumption sees it.
type server struct {
	version int
	refuses bool
	watches int
}

func (s *server) resumption(store *kindStore) *resumption {
	return &resumption{
		store: store,
		list: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			if s.refuses {
				return nil, syscall.ECONNREFUSED
			}
			return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(s.version)}}, nil
		},
		watch: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
			s.watches++
			return watch.NewEmptyWatch(), nil
		},
	}
}

// A watch is resumed, and a list streamed, unless the API server is behind its earlier version.
func TestAWatchIsNotResumedBeforeItsTime(t *testing.T) {
	for name, streamed := range map[string]*bool{"a watch": nil, "a streamed list": new(bool)} {
		for version, ends := range map[int]bool{19: true, 20: false, 21: false} {
			ctx, fail := context.WithCancelCause(t.Context())
			store, _ := newStore(nil, fail, nil)
			if streamed == nil {
				store.progress = 20
			} else {
				store.reached = 20
			}
			api := &server{version: version}
			_, err := api.resumption(store).begin(ctx, metav1.ListOptions{SendInitialEvents: streamed})
			var back *WentBackError
			if errors.As(err, &back) != ends || errors.As(context.Cause(ctx), &back) != ends || (api.watches == 0) != ends {
				t.Errorf("%s at %d: %v, %d watches, the round ends with %v; want it to end: %t",
					name, version, err, api.watches, context.Cause(ctx), ends)
			}
			fail(nil)
		}
	}
}

// After an API server was away its objects are listed, because it may have gone back and advanced again.
func TestAnAPIServerThatWasAwayIsListed(t *testing.T) {
	ctx, fail := context.WithCancelCause(t.Context())
	defer fail(nil)
	store, _ := newStore(nil, fail, nil)
	store.progress = 20
	api := &server{version: 30, refuses: true}
	r := api.resumption(store)
	watched, listed := metav1.ListOptions{ResourceVersion: "20"}, metav1.ListOptions{SendInitialEvents: new(bool)}
	for range 2 {
		if _, err := r.begin(ctx, watched); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("while it is away: %v, want what the reflector waits for quietly", err)
		}
	}
	api.refuses = false
	if _, err := r.begin(ctx, watched); !apierrors.IsResourceExpired(err) {
		t.Errorf("when it is back: %v, want what the reflector lists after", err)
	}
	for n, options := range []metav1.ListOptions{listed, watched} {
		if _, err := r.begin(ctx, options); err != nil || api.watches != n+1 {
			t.Errorf("then: %v, %d watches", err, api.watches)
		}
	}
}
