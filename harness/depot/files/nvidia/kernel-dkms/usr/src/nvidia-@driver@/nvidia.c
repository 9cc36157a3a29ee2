// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * A fake of NVIDIA's kernel module, made by Rigwright's tests: it drives nothing. It is built, so that what DKMS does and what
 * modinfo says (version, licence, parameters, aliases, version magic) is real.
 */
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/pci.h>

static int NVreg_RestrictProfilingToAdminUsers = 1;
module_param(NVreg_RestrictProfilingToAdminUsers, int, 0400);
static int NVreg_PreserveVideoMemoryAllocations;
module_param(NVreg_PreserveVideoMemoryAllocations, int, 0400);

static const struct pci_device_id nv_pci_table[] = {
	{ .vendor = PCI_VENDOR_ID_NVIDIA, .device = PCI_ANY_ID, .subvendor = PCI_ANY_ID, .subdevice = PCI_ANY_ID,
	  .class = PCI_CLASS_DISPLAY_VGA << 8, .class_mask = ~0 },
	{ .vendor = PCI_VENDOR_ID_NVIDIA, .device = PCI_ANY_ID, .subvendor = PCI_ANY_ID, .subdevice = PCI_ANY_ID,
	  .class = PCI_CLASS_DISPLAY_3D << 8, .class_mask = ~0 },
	{ }
};
MODULE_DEVICE_TABLE(pci, nv_pci_table);

static int __init nvidia_init_module(void)
{
	pr_info("NVRM: loading @banner@  @driver@\n");
	return 0;
}

static void __exit nvidia_exit_module(void)
{
}

module_init(nvidia_init_module);
module_exit(nvidia_exit_module);
MODULE_LICENSE("@license@");
MODULE_VERSION("@driver@");
MODULE_INFO(supported, "external");
MODULE_FIRMWARE("nvidia/@driver@/gsp_tu10x.bin");
MODULE_ALIAS("char-major-195-*");
