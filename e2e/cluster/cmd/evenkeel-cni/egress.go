package main

import (
	"fmt"
	"net"
	"os/exec"
	"strings"

	"github.com/vishvananda/netlink"
)

// A chain of ours, entered by everything that pods send through `hook`.
type chain struct {
	table, name, hook string
	rules             []string
}

// limitEgress gives pods the way to other containers on the docker network and
// refuses everything beyond it: tests must not reach the outside, and
// something out there must not answer for a Service that is broken.
func limitEgress(podNet string) error {
	dockerNet, err := uplinkNetwork()
	if err != nil {
		return err
	}
	for _, c := range []chain{
		{"nat", "EK-MASQ", "POSTROUTING", []string{
			"-d " + podNet + " -j RETURN",
			"-d " + dockerNet + " -j MASQUERADE",
		}},
		{"filter", "EK-EGRESS", "FORWARD", []string{
			"-d " + podNet + " -j RETURN",
			"-d " + dockerNet + " -j RETURN",
			"-j REJECT --reject-with icmp-net-unreachable",
		}},
	} {
		if err := c.install(podNet); err != nil {
			return err
		}
	}
	return nil
}

func (c chain) install(podNet string) error {
	jump := "-s " + podNet + " -j " + c.name
	_ = iptables(c.table, "-N "+c.name) // there already after a restart of this daemon
	if err := iptables(c.table, "-F "+c.name); err != nil {
		return err
	}
	for _, rule := range c.rules {
		if err := iptables(c.table, "-A "+c.name+" "+rule); err != nil {
			return err
		}
	}
	if iptables(c.table, "-C "+c.hook+" "+jump) == nil {
		return nil
	}
	return iptables(c.table, "-I "+c.hook+" "+jump)
}

func uplinkNetwork() (string, error) {
	link, err := uplink()
	if err != nil {
		return "", err
	}
	addresses, err := netlink.AddrList(link, netlink.FAMILY_V4)
	if err != nil {
		return "", err
	}
	if len(addresses) == 0 {
		return "", fmt.Errorf("%s has no address", link.Attrs().Name)
	}
	address := addresses[0]
	return (&net.IPNet{IP: address.IP.Mask(address.Mask), Mask: address.Mask}).String(), nil
}

func iptables(table, words string) error {
	args := append([]string{"-w", "10", "-t", table}, strings.Fields(words)...)
	if out, err := exec.Command("iptables", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("iptables %s: %w: %s", words, err, out)
	}
	return nil
}
