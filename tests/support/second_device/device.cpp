// A second device for tests: memory of its own, which only copies reach. Every other operation copies its operands to
// the CPU, computes there and copies the results back, so numbers are those of the CPU, bit by bit.

#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_local_scalar_dense_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <cstdlib>

namespace {

constexpr auto kDevice = c10::DeviceType::PrivateUse1;
constexpr int kDevices = 4;
thread_local c10::DeviceIndex current = 0;

struct Memory final : c10::Allocator {
    c10::DataPtr allocate(size_t bytes) override {
        void *data = bytes ? std::malloc(bytes) : nullptr;
        return {data, data, &std::free, c10::Device(kDevice, current)};
    }
    c10::DeleterFnPtr raw_deleter() const override { return &std::free; }
    void copy_data(void *to, const void *from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }
};
Memory memory;
REGISTER_ALLOCATOR(kDevice, &memory);

struct Guard final : c10::impl::DeviceGuardImplInterface {
    c10::DeviceType type() const override { return kDevice; }
    c10::Device exchangeDevice(c10::Device d) const override {
        auto before = getDevice();
        setDevice(d);
        return before;
    }
    c10::Device getDevice() const override { return {kDevice, current}; }
    void setDevice(c10::Device d) const override {
        TORCH_CHECK(d.index() < kDevices, "there are ", kDevices, " devices");
        current = d.index() < 0 ? 0 : d.index();
    }
    void uncheckedSetDevice(c10::Device d) const noexcept override { current = d.index() < 0 ? 0 : d.index(); }
    c10::Stream getStream(c10::Device d) const override { return c10::Stream(c10::Stream::DEFAULT, d); }
    c10::Stream exchangeStream(c10::Stream s) const override { return s; }
    c10::DeviceIndex deviceCount() const noexcept override { return kDevices; }
    void record(void **, const c10::Stream &, const c10::DeviceIndex, const c10::EventFlag) const override {}
    void block(void *, const c10::Stream &) const override {}
    bool queryEvent(void *) const override { return true; }
    void destroyEvent(void *, const c10::DeviceIndex) const noexcept override {}
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

struct Hooks final : at::PrivateUse1HooksInterface {
    bool isBuilt() const override { return true; }
    bool isAvailable() const override { return true; }
    bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
    c10::DeviceIndex deviceCount() const override { return kDevices; }
    c10::DeviceIndex getCurrentDevice() const override { return current; }
    void setCurrentDevice(c10::DeviceIndex d) const override { current = d; }
    c10::Allocator *getPinnedMemoryAllocator() const override { return c10::GetCPUAllocator(); }
};
const int registered = (at::RegisterPrivateUse1HooksInterface(new Hooks), 0);

at::Tensor empty(c10::SymIntArrayRef size, std::optional<c10::ScalarType> dtype, std::optional<c10::Layout>,
                 std::optional<c10::Device> device, std::optional<bool>, std::optional<c10::MemoryFormat> format) {
    c10::DeviceGuard guard(device.value_or(c10::Device(kDevice, current)));
    constexpr c10::DispatchKeySet keys(c10::DispatchKey::PrivateUse1);
    return at::detail::empty_generic(C10_AS_INTARRAYREF_SLOW(size), &memory, keys, c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(c10::SymIntArrayRef size, c10::SymIntArrayRef stride, std::optional<c10::ScalarType> dtype,
                         std::optional<c10::Layout>, std::optional<c10::Device> device, std::optional<bool>) {
    c10::DeviceGuard guard(device.value_or(c10::Device(kDevice, current)));
    constexpr c10::DispatchKeySet keys(c10::DispatchKey::PrivateUse1);
    return at::detail::empty_strided_generic(C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride), &memory,
                                             keys, c10::dtype_or_default(dtype));
}

// The same memory as a tensor of the CPU.
at::Tensor on_host(const at::Tensor &a) {
    if (a.is_cpu()) return a;
    auto options = a.options().device(c10::DeviceType::CPU);
    return at::from_blob(a.data_ptr(), a.sizes(), a.strides(), options);
}

at::Tensor copy_from(const at::Tensor &from, const at::Tensor &to, bool) {
    on_host(to).copy_(on_host(from));
    return to;
}

at::Tensor copy_from_and_resize(const at::Tensor &from, const at::Tensor &to) {
    if (to.sizes() != from.sizes()) at::native::resize_(to, from.sizes(), std::nullopt);
    return copy_from(from, to, false);
}

at::Scalar local_scalar(const at::Tensor &a) { return on_host(a).item(); }

at::Tensor &set_source(at::Tensor &self, c10::Storage source, c10::SymInt offset, c10::SymIntArrayRef size,
                       c10::SymIntArrayRef stride) {
    return at::native::set_storage_cpu_(self, source, offset.expect_int(), C10_AS_INTARRAYREF_SLOW(size),
                                        C10_AS_INTARRAYREF_SLOW(stride));
}

const at::Tensor &resize(const at::Tensor &self, c10::SymIntArrayRef size, std::optional<c10::MemoryFormat> format) {
    return at::native::resize_(self, C10_AS_INTARRAYREF_SLOW(size), format);
}

at::Tensor view(const at::Tensor &self, c10::SymIntArrayRef size) {
    return at::native::view(self, C10_AS_INTARRAYREF_SLOW(size));
}

at::Tensor as_strided(const at::Tensor &self, c10::SymIntArrayRef size, c10::SymIntArrayRef stride,
                      std::optional<c10::SymInt> offset) {
    std::optional<int64_t> at_ = offset.has_value() ? std::optional<int64_t>(offset->expect_int()) : std::nullopt;
    return at::native::as_strided_tensorimpl(self, C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride), at_);
}

at::Tensor alias(const at::Tensor &self, c10::SymIntArrayRef size, c10::SymIntArrayRef stride) {
    return at::native::_reshape_alias(self, C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride));
}

void through_the_cpu(const c10::OperatorHandle &op, torch::jit::Stack *stack) { at::native::cpu_fallback(op, stack); }

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
    m.impl("empty.memory_format", empty);
    m.impl("empty_strided", empty_strided);
    m.impl("_copy_from", copy_from);
    m.impl("_copy_from_and_resize", copy_from_and_resize);
    m.impl("_local_scalar_dense", local_scalar);
    m.impl("set_.source_Storage_storage_offset", set_source);
    m.impl("resize_", resize);
    m.impl("view", view);
    m.impl("as_strided", as_strided);
    m.impl("_reshape_alias", alias);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&through_the_cpu>()); }
