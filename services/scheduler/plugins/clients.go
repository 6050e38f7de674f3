package plugins

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
)

// clients creates what plugins ask for when one first asks: a client, the informer factory, the event broadcaster.
// Creation and start are separate, since plugins ask while they are created, and nothing may run before Run. Safe
// for concurrent use.
type clients struct {
	deps Deps
	// started is closed when the clients that plugins asked for during their creation have been started.
	started chan struct{}
	mu      struct {
		sync.Mutex
		// Each is nil until a plugin asks for it. err is the first reason why one could not be created.
		rest      *restclient.Config
		client    kubernetes.Interface
		informers informers.SharedInformerFactory
		events    events.EventBroadcaster
		err       error
	}
}

// nowhere is the host of the client that a plugin gets if the process has no cluster, so that the plugin does not
// fail on a nil client before New returns the error.
const nowhere = "https://no-cluster.invalid"

var errNoCluster = errors.New("requests a client, but this process has none: want --kubeconfig or a service account")

// rest returns the configuration; nil if the process has none for a client.
func (c *clients) rest() *restclient.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.restLocked()
}

// restLocked is rest for a caller that holds the lock. RestConfig is called once at most.
func (c *clients) restLocked() *restclient.Config {
	if c.mu.rest != nil || c.mu.err != nil || c.deps.RestConfig == nil {
		return c.mu.rest
	}
	rest, err := c.deps.RestConfig()
	if err != nil {
		c.mu.err = fmt.Errorf("requests a client: %w", err)
		return nil
	}
	c.mu.rest = rest
	return rest
}

// client returns the client that all plugins share; see clientLocked.
func (c *clients) client() kubernetes.Interface {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.clientLocked()
}

// clientLocked creates the client on the first call. Without a configuration it returns a client of a host that does
// not exist, and notes the error, with which New fails.
func (c *clients) clientLocked() kubernetes.Interface {
	if c.mu.client != nil {
		return c.mu.client
	}
	if c.deps.Client != nil {
		c.mu.client = c.deps.Client
		return c.mu.client
	}
	rest := c.restLocked()
	if rest == nil {
		c.mu.err = cmp.Or(c.mu.err, errNoCluster)
		rest = &restclient.Config{Host: nowhere}
	}
	client, err := kubernetes.NewForConfig(rest)
	if err != nil {
		c.mu.err = fmt.Errorf("requests a client: %w", err)
		return nil
	}
	c.mu.client = client
	return client
}

// factory returns the informer factory that all plugins share. Informers are not resynced.
func (c *clients) factory() informers.SharedInformerFactory {
	c.mu.Lock()
	defer c.mu.Unlock()
	if client := c.clientLocked(); c.mu.informers == nil && client != nil {
		c.mu.informers = informers.NewSharedInformerFactory(client, 0)
	}
	return c.mu.informers
}

// recorder returns a recorder that writes events in the name of a profile; nil if the process can have no client.
func (c *clients) recorder(profile string) events.EventRecorderLogger {
	c.mu.Lock()
	defer c.mu.Unlock()
	client := c.clientLocked()
	if client == nil {
		return nil
	}
	if c.mu.events == nil {
		c.mu.events = events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	}
	return c.mu.events.NewRecorder(scheme.Scheme, profile)
}

// run starts what plugins have asked for, until ctx ends. Informers that plugins ask for later are started within
// lateInformers.
func (c *clients) run(ctx context.Context) error {
	tick := time.NewTicker(lateInformers)
	defer tick.Stop()
	var recording, started bool
	for {
		c.mu.Lock()
		factory, broadcaster := c.mu.informers, c.mu.events
		c.mu.Unlock()
		if factory != nil {
			// Start is repeated: it starts the informers that were requested since, and no other twice.
			factory.Start(ctx.Done())
		}
		if broadcaster != nil && !recording {
			recording = true
			if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
				return fmt.Errorf("plugins: events: %w", err)
			}
		}
		// The first pass has started everything that plugins asked for during their creation; questions may be asked
		// now.
		if !started {
			started = true
			close(c.started)
		}
		select {
		case <-ctx.Done():
			if broadcaster != nil {
				broadcaster.Shutdown()
			}
			if factory != nil {
				factory.Shutdown()
			}
			return nil
		case <-tick.C:
		}
	}
}

// lateInformers is how often run checks whether plugins have asked for more informers.
const lateInformers = time.Second

// sync waits until the plugins' informers have synced; an error means that ctx ended first. It returns at once after
// that, so that every question may call it.
func (c *clients) sync(ctx context.Context) error {
	select {
	case <-c.started:
	case <-ctx.Done():
		return ctx.Err()
	}
	c.mu.Lock()
	factory := c.mu.informers
	c.mu.Unlock()
	if factory == nil {
		return nil
	}
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("plugins: informer of %s has not synced", kind)
		}
	}
	return nil
}
