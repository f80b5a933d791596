package main

import (
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
)

const (
	configurationPath = "/etc/cni/net.d/10-evenkeel.conflist"
	// %d: the uplink's MTU, %s: the node's podCIDR
	configuration = `{
  "cniVersion": "0.4.0",
  "name": "evenkeel",
  "plugins": [
    {"type": "ptp", "ipMasq": false, "mtu": %d,
     "ipam": {"type": "host-local", "dataDir": "/run/cni-ipam",
              "routes": [{"dst": "0.0.0.0/0"}],
              "ranges": [[{"subnet": "%s"}]]}},
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
`
)

// syncRoutes configures this node's pods and the way to those of the others.
func syncRoutes(self, podNet string, nodes []*corev1.Node) error {
	var failed []error
	wanted := map[string]bool{}
	for _, node := range nodes {
		if node.Spec.PodCIDR == "" {
			continue
		}
		if node.Name == self {
			failed = append(failed, writeConfiguration(node.Spec.PodCIDR))
			continue
		}
		_, pods, err := net.ParseCIDR(node.Spec.PodCIDR)
		gateway := internalIP(node)
		if err != nil || gateway == nil {
			failed = append(failed, err)
			continue
		}
		wanted[pods.String()] = true
		failed = append(failed, netlink.RouteReplace(&netlink.Route{Dst: pods, Gw: gateway}))
	}
	failed = append(failed, removeRoutes(podNet, wanted))
	return errors.Join(failed...)
}

// removeRoutes forgets the pods of nodes that are gone.
func removeRoutes(podNet string, wanted map[string]bool) error {
	_, all, err := net.ParseCIDR(podNet)
	if err != nil {
		return err
	}
	routes, err := netlink.RouteList(nil, netlink.FAMILY_V4)
	if err != nil {
		return err
	}
	for _, route := range routes {
		if route.Dst == nil || route.Gw == nil || !all.Contains(route.Dst.IP) || wanted[route.Dst.String()] {
			continue
		}
		log.Printf("removing route %s", route.Dst)
		if err := netlink.RouteDel(&route); err != nil {
			return err
		}
	}
	return nil
}

func writeConfiguration(podCIDR string) error {
	link, err := uplink()
	if err != nil {
		return err
	}
	body := fmt.Sprintf(configuration, link.Attrs().MTU, podCIDR)
	if old, err := os.ReadFile(configurationPath); err == nil && string(old) == body {
		return nil
	}
	beside := filepath.Join(filepath.Dir(configurationPath), ".10-evenkeel.new")
	if err := os.WriteFile(beside, []byte(body), 0o644); err != nil {
		return err
	}
	return os.Rename(beside, configurationPath)
}

// uplink is the interface of the default route: eth0, or eth1 after the
// container was disconnected from its network and connected again.
func uplink() (netlink.Link, error) {
	routes, err := netlink.RouteList(nil, netlink.FAMILY_V4)
	if err != nil {
		return nil, err
	}
	for _, route := range routes {
		if route.Gw != nil && (route.Dst == nil || route.Dst.IP.IsUnspecified()) {
			return netlink.LinkByIndex(route.LinkIndex)
		}
	}
	return nil, errors.New("no default route")
}

func internalIP(node *corev1.Node) net.IP {
	for _, address := range node.Status.Addresses {
		if address.Type == corev1.NodeInternalIP {
			return net.ParseIP(address.Address)
		}
	}
	return nil
}
