package app

import (
	"context"
	"fmt"

	schedulerv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/cmd/berth/internal/lease"
	"github.com/berth-scheduler/berth/cmd/berth/internal/serve"
)

// allServices is the name of a process that runs more than one service.
const allServices = "berth"

// listen takes the HTTP port, and describes the process on it.
func (o *options) listen(services []service, in inputs) (*serve.Server, error) {
	web, err := serve.Listen(o.http)
	if err != nil {
		return nil, err
	}
	name := serviceName(services)
	if name != allServices {
		name = allServices + "-" + name
	}
	web.Describe(serve.Component{
		Name: name, Version: berthVersion(), Flags: o.flags, Configuration: withoutKeys(in.config.Effective),
	})
	if o.http.TLS.TokenReview {
		if err := web.ReviewTokens(in.rest); err != nil {
			web.Close()
			return nil, err
		}
	}
	return web, nil
}

// withoutKeys returns a copy of a configuration for /configz, without the private keys of extenders' certificates.
func withoutKeys(c *schedulerv1.KubeSchedulerConfiguration) *schedulerv1.KubeSchedulerConfiguration {
	shown := c.DeepCopy()
	for i := range shown.Extenders {
		if tls := shown.Extenders[i].TLSConfig; tls != nil {
			tls.KeyData = nil
		}
	}
	return shown
}

// leaseOf returns what keeps the Lease of --lease for a queue while it leads; nil without a Lease.
func (b *builder) leaseOf(o *options, member string) (func(context.Context), error) {
	if o.lease == "" {
		return nil, nil
	}
	ref, err := lease.Parse(o.lease)
	if err != nil {
		return nil, fmt.Errorf("--lease: %w", err)
	}
	keeper, err := lease.New(b.in.rest, ref, member, b.loggerOf(queueService, member))
	if err != nil {
		return nil, err
	}
	return keeper.Run, nil
}
