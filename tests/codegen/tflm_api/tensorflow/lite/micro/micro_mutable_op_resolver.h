#ifndef TFLM_API_MUTABLE_OP_RESOLVER_H
#define TFLM_API_MUTABLE_OP_RESOLVER_H

#include <string.h>

#include "tensorflow/lite/c/common.h"
#include "tensorflow/lite/micro/micro_op_resolver.h"

/* Every method that registers an operator without being told how: what TFLM had in August 2026. */
#define TFLM_API_METHODS(X) \
    X(AddAbs) X(AddAdd) X(AddAddN) X(AddArgMax) X(AddArgMin) X(AddAssignVariable) X(AddAveragePool2D) \
    X(AddBatchMatMul) X(AddBatchToSpaceNd) X(AddBroadcastArgs) X(AddBroadcastTo) X(AddCallOnce) X(AddCast) \
    X(AddCeil) X(AddCircularBuffer) X(AddConcatenation) X(AddConv2D) X(AddCos) X(AddCumSum) X(AddDecode) X(AddDelay) \
    X(AddDepthToSpace) X(AddDepthwiseConv2D) X(AddDequantize) X(AddDetectionPostprocess) X(AddDiv) \
    X(AddDynamicUpdateSlice) X(AddElu) X(AddEmbeddingLookup) X(AddEnergy) X(AddEqual) X(AddExp) X(AddExpandDims) \
    X(AddFftAutoScale) X(AddFill) X(AddFilterBank) X(AddFilterBankLog) X(AddFilterBankSpectralSubtraction) \
    X(AddFilterBankSquareRoot) X(AddFloor) X(AddFloorDiv) X(AddFloorMod) X(AddFramer) X(AddFullyConnected) \
    X(AddGather) X(AddGatherNd) X(AddGreater) X(AddGreaterEqual) X(AddHardSwish) X(AddIf) X(AddIrfft) \
    X(AddL2Normalization) X(AddL2Pool2D) X(AddLeakyRelu) X(AddLess) X(AddLessEqual) X(AddLog) X(AddLogSoftmax) \
    X(AddLogicalAnd) X(AddLogicalNot) X(AddLogicalOr) X(AddLogistic) X(AddMaxPool2D) X(AddMaximum) X(AddMean) \
    X(AddMinimum) X(AddMirrorPad) X(AddMul) X(AddNeg) X(AddNotEqual) X(AddOverlapAdd) X(AddPCAN) X(AddPack) \
    X(AddPad) X(AddPadV2) X(AddPrelu) X(AddQuantize) X(AddReadVariable) X(AddReduceAll) X(AddReduceMax) \
    X(AddReduceMin) X(AddRelu) X(AddRelu6) X(AddReshape) X(AddResizeBilinear) X(AddResizeNearestNeighbor) \
    X(AddReverseV2) X(AddRfft) X(AddRound) X(AddRsqrt) X(AddSelectV2) X(AddShape) X(AddSin) X(AddSlice) \
    X(AddSoftmax) X(AddSpaceToBatchNd) X(AddSpaceToDepth) X(AddSplit) X(AddSplitV) X(AddSqrt) X(AddSquare) \
    X(AddSquaredDifference) X(AddSqueeze) X(AddStacker) X(AddStridedSlice) X(AddSub) X(AddSum) X(AddSvdf) X(AddTanh) \
    X(AddTranspose) X(AddTransposeConv) X(AddUnidirectionalSequenceLSTM) X(AddUnpack) X(AddVarHandle) X(AddWhile) \
    X(AddWindow) X(AddZerosLike)

namespace tflite {

/* Counts what is added, and refuses as the real one does: the same twice, or more than there is room for. */
template <unsigned int tOpCount>
class MicroMutableOpResolver : public MicroOpResolver {
  public:
    explicit MicroMutableOpResolver() {}

    const TFLMRegistration *FindOp(const char *op) const override
    {
        for (unsigned int i = 0; i < length_; ++i) {
            if (strcmp(registrations_[i].custom_name, op) == 0) {
                return &registrations_[i];
            }
        }
        return nullptr;
    }

    TfLiteStatus AddCustom(const char *name, const TFLMRegistration *registration)
    {
        return registration == nullptr ? kTfLiteError : Add(name);
    }

#define TFLM_API_METHOD(name) \
    TfLiteStatus name(const TFLMRegistration &registration = TFLMRegistration()) \
    { \
        typed_ += registration.custom_name != nullptr; \
        return Add(#name); \
    }
    TFLM_API_METHODS(TFLM_API_METHOD)
#undef TFLM_API_METHOD
    /* A method that someone has added to a TFLM of his own. */
    TfLiteStatus AddMyOp() { return Add("AddMyOp"); }

    unsigned int GetRegistrationLength() { return length_; }

    /* How many of them are kernels for only some types. */
    unsigned int GetTypedLength() { return typed_; }

  private:
    TfLiteStatus Add(const char *name)
    {
        if (length_ >= tOpCount || FindOp(name) != nullptr) {
            return kTfLiteError;
        }
        registrations_[length_++].custom_name = name;
        return kTfLiteOk;
    }

    TFLMRegistration registrations_[tOpCount];
    unsigned int length_ = 0, typed_ = 0;
};

}  // namespace tflite

#endif
