// An ADIOS2 plugin engine that hands every call on to heliostat.adios2 in the same process.
//
// ADIOS2 2.12 gives plugins an interface of its own over the public C++ API (version 2), and its
// wheel brings the headers, so this file is compiled on the machine where it is used
// (heliostat/adios2.py does it). All that is about steps, regions and memory is in Python; here is
// only what needs C++ types: puts and gets by type, definitions of variables and attributes.
//
// A function of the table answers 0, or another number after it has left a reason.

#include <adios2/plugin/PluginEngineInterface.h>

#include <complex>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace
{
struct Calls
{
    int64_t (*open)(void *engine, int writes, const char *parameters);
    int (*begin)(int64_t id, double seconds);
    int (*put)(int64_t id, const char *name, const char *type, int deferred, size_t rank,
               const size_t *shape, const size_t *start, const size_t *count, const void *data);
    int (*get)(int64_t id, const char *name, size_t rank, const size_t *start, const size_t *count,
               void *data);
    int (*put_text)(int64_t id, const char *name, const char *text);
    const char *(*get_text)(int64_t id, const char *name);
    int (*attribute)(int64_t id, const char *name, const char *type, int single, const void *data,
                     size_t bytes);
    int (*end)(int64_t id);
    int64_t (*current)(int64_t id);
    void (*close)(int64_t id);
    const char *(*reason)();
};

Calls calls = {};

void check(int answer)
{
    if (answer != 0)
        throw std::runtime_error(std::string("heliostat: ") + calls.reason());
}

std::string lines(const adios2::Params &parameters)
{
    std::string text;
    for (const auto &one : parameters)
        text += one.first + "=" + one.second + "\n";
    return text;
}
} // namespace

// The types that NumPy has too.
#define FOR_EACH_NUMBER(CASE)                                                                      \
    CASE(char)                                                                                     \
    CASE(int8_t)                                                                                   \
    CASE(int16_t)                                                                                  \
    CASE(int32_t)                                                                                  \
    CASE(int64_t)                                                                                  \
    CASE(uint8_t)                                                                                  \
    CASE(uint16_t)                                                                                 \
    CASE(uint32_t)                                                                                 \
    CASE(uint64_t)                                                                                 \
    CASE(float)                                                                                    \
    CASE(double)                                                                                   \
    CASE(std::complex<float>)                                                                      \
    CASE(std::complex<double>)

class Engine : public adios2::plugin::PluginEngineInterface
{
public:
    Engine(adios2::IO io, const std::string &name, adios2::Mode mode)
    : PluginEngineInterface(io, name, mode)
    {
        if (calls.open == nullptr)
            throw std::runtime_error("heliostat: import heliostat.adios2 first, and take its "
                                     "parameters()");
        m_Writes = mode == adios2::Mode::Write;
        m_Id = calls.open(this, m_Writes, lines(m_IO.Parameters()).c_str());
        check(m_Id < 0);
    }

    ~Engine() override { calls.close(m_Id); }

    adios2::StepStatus BeginStep(adios2::StepMode, const float seconds) override
    {
        const int answer = calls.begin(m_Id, seconds);
        check(answer > 3);
        return answer == 0   ? adios2::StepStatus::OK
               : answer == 1 ? adios2::StepStatus::NotReady
               : answer == 2 ? adios2::StepStatus::EndOfStream
                             : adios2::StepStatus::OtherError;
    }

    void EndStep() override
    {
        if (m_Writes)
            TellAttributes();
        check(calls.end(m_Id));
    }

    size_t CurrentStep() const override { return static_cast<size_t>(calls.current(m_Id)); }

    void DoClose(const int) override { calls.close(m_Id); }

#define CASE(T)                                                                                    \
    void DoPutSync(adios2::Variable<T> variable, const T *values) override                         \
    {                                                                                              \
        Put(variable, values, 0);                                                                  \
    }                                                                                              \
    void DoPutDeferred(adios2::Variable<T> variable, const T *values) override                     \
    {                                                                                              \
        Put(variable, values, 1);                                                                  \
    }                                                                                              \
    void DoGetSync(adios2::Variable<T> variable, T *values) override { Get(variable, values); }    \
    void DoGetDeferred(adios2::Variable<T> variable, T *values) override { Get(variable, values); } \
    void DoGetSync(adios2::Variable<T>, T *, const adios2::core::Selection &) override             \
    {                                                                                              \
        throw std::runtime_error("heliostat: set the selection of the variable instead");          \
    }                                                                                              \
    void DoGetDeferred(adios2::Variable<T>, T *, const adios2::core::Selection &) override         \
    {                                                                                              \
        throw std::runtime_error("heliostat: set the selection of the variable instead");          \
    }
    FOR_EACH_NUMBER(CASE)
#undef CASE

    void DoPutSync(adios2::Variable<std::string> variable, const std::string *text) override
    {
        check(calls.put_text(m_Id, variable.Name().c_str(), text->c_str()));
    }
    void DoPutDeferred(adios2::Variable<std::string> variable, const std::string *text) override
    {
        DoPutSync(variable, text);
    }
    void DoGetSync(adios2::Variable<std::string> variable, std::string *text) override
    {
        const char *found = calls.get_text(m_Id, variable.Name().c_str());
        check(found == nullptr);
        *text = found;
    }
    void DoGetDeferred(adios2::Variable<std::string> variable, std::string *text) override
    {
        DoGetSync(variable, text);
    }

    // For the reader's steps: makes a variable known to the program, or its new shape.
    void Define(const std::string &name, const std::string &type, const adios2::Dims &shape)
    {
        const adios2::Dims zeros(shape.size(), 0);
        if (type == "string")
        {
            if (!m_IO.InquireVariable<std::string>(name))
                m_IO.DefineVariable<std::string>(name);
        }
#define CASE(T)                                                                                    \
    else if (type == adios2::GetType<T>())                                                         \
    {                                                                                              \
        auto known = m_IO.InquireVariable<T>(name);                                                \
        if (known && known.Shape().size() != shape.size())                                         \
        {                                                                                          \
            m_IO.RemoveVariable(name);                                                             \
            known = adios2::Variable<T>();                                                         \
        }                                                                                          \
        if (!known)                                                                                \
            m_IO.DefineVariable<T>(name, shape, zeros, shape);                                     \
        else if (!shape.empty())                                                                   \
        {                                                                                          \
            known.SetShape(shape);                                                                 \
            known.SetSelection({zeros, shape});                                                    \
        }                                                                                          \
    }
        FOR_EACH_NUMBER(CASE)
#undef CASE
    }

    void Forget(const std::string &name) { m_IO.RemoveVariable(name); }

    void DefineAttribute(const std::string &name, const std::string &type, bool single,
                         const char *data, size_t bytes)
    {
        if (type == "string")
        {
            std::vector<std::string> texts;
            for (size_t at = 0; at < bytes; at += texts.back().size() + 1)
                texts.emplace_back(data + at);
            if (!m_IO.InquireAttribute<std::string>(name))
                single ? m_IO.DefineAttribute<std::string>(name, texts.at(0))
                       : m_IO.DefineAttribute<std::string>(name, texts.data(), texts.size());
        }
#define CASE(T)                                                                                    \
    else if (type == adios2::GetType<T>())                                                         \
    {                                                                                              \
        const T *values = reinterpret_cast<const T *>(data);                                       \
        if (!m_IO.InquireAttribute<T>(name))                                                       \
            single ? m_IO.DefineAttribute<T>(name, *values)                                        \
                   : m_IO.DefineAttribute<T>(name, values, bytes / sizeof(T));                     \
    }
        FOR_EACH_NUMBER(CASE)
#undef CASE
    }

private:
    int64_t m_Id = -1;
    bool m_Writes = false;

    template <class T>
    void Put(adios2::Variable<T> variable, const T *values, int deferred)
    {
        const auto shape = variable.Shape(), start = variable.Start(), count = variable.Count();
        if (shape.size() != count.size())
            throw std::runtime_error("heliostat: " + variable.Name() +
                                     " is a local array; give it a global shape");
        check(calls.put(m_Id, variable.Name().c_str(), variable.Type().c_str(), deferred,
                        shape.size(), shape.data(), start.data(), count.data(), values));
    }

    template <class T>
    void Get(adios2::Variable<T> variable, T *values)
    {
        const auto start = variable.Start(), count = variable.Count();
        check(calls.get(m_Id, variable.Name().c_str(), count.size(), start.data(), count.data(),
                        values));
    }

    void TellAttributes()
    {
        for (const auto &one : m_IO.AvailableAttributes())
        {
            const std::string &name = one.first, &type = one.second.at("Type");
            if (type == "string")
            {
                const auto known = m_IO.InquireAttribute<std::string>(name);
                std::string text;
                for (const auto &line : known.Data())
                    text += line + '\0';
                check(calls.attribute(m_Id, name.c_str(), "string", known.IsValue(), text.data(),
                                      text.size()));
            }
#define CASE(T)                                                                                    \
    else if (type == adios2::GetType<T>())                                                         \
    {                                                                                              \
        const auto known = m_IO.InquireAttribute<T>(name);                                         \
        const std::vector<T> values = known.Data();                                                \
        check(calls.attribute(m_Id, name.c_str(), type.c_str(), known.IsValue(), values.data(),    \
                              values.size() * sizeof(T)));                                         \
    }
            FOR_EACH_NUMBER(CASE)
#undef CASE
        }
    }
};

extern "C" {
Engine *EngineCreate(adios2::IO io, const std::string &name, const adios2::Mode mode)
{
    return new Engine(io, name, mode);
}

void EngineDestroy(Engine *engine) { delete engine; }

void heliostat_engine_calls(const Calls *table) { calls = *table; }

int heliostat_engine_define(Engine *engine, const char *name, const char *type, size_t rank,
                            const size_t *shape)
{
    try
    {
        engine->Define(name, type, adios2::Dims(shape, shape + rank));
        return 0;
    }
    catch (const std::exception &)
    {
        return 1;
    }
}

int heliostat_engine_forget(Engine *engine, const char *name)
{
    try
    {
        engine->Forget(name);
        return 0;
    }
    catch (const std::exception &)
    {
        return 1;
    }
}

int heliostat_engine_define_attribute(Engine *engine, const char *name, const char *type,
                                      int single, const char *data, size_t bytes)
{
    try
    {
        engine->DefineAttribute(name, type, single != 0, data, bytes);
        return 0;
    }
    catch (const std::exception &)
    {
        return 1;
    }
}

// Copies what differs, page by page: an equal page stays unwritten, and costs no version anything.
void heliostat_engine_merge(char *into, const char *from, size_t bytes)
{
    const size_t page = 4096;
    for (size_t at = 0; at < bytes;)
    {
        const size_t into_page = page - (reinterpret_cast<uintptr_t>(into) + at) % page;
        const size_t length = into_page < bytes - at ? into_page : bytes - at;
        if (__builtin_memcmp(into + at, from + at, length) != 0)
            __builtin_memcpy(into + at, from + at, length);
        at += length;
    }
}
}
